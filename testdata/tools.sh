#!/usr/bin/env bash
# Installs what the tests need besides Go, where it is missing: a C compiler for
# the race detector; Node.js with two npm packages, an independent reader of WARC
# files and a replay program; Chromium and other clients; zstd and openssl.
# Debian's packages are installed with apt-get. A user other than root is asked to
# install them.
set -euo pipefail
cd "$(dirname "$0")"

missing=()
# A compiler without the C library's headers and start files is of no use.
if ! printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' | gcc -x c -o /dev/null - 2>/dev/null; then
	missing+=(gcc libc6-dev)
fi
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v chromium >/dev/null || missing+=(chromium)
command -v ip >/dev/null || missing+=(iproute2)
for client in curl wget git python3 zstd openssl; do
	command -v "$client" >/dev/null || missing+=("$client")
done
if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "make test needs: ${missing[*]}. Please install them." >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	apt-get install -qy --no-install-recommends "${missing[@]}"
fi

# The copy of the lock file is made last: without it, or with another one, the
# packages are not complete or not those that are wanted.
installed=node/node_modules/.installed-package-lock.json
if ! cmp -s node/package-lock.json "$installed"; then
	(cd node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp node/package-lock.json "$installed"
fi
