#!/usr/bin/env bash
# Installs what the tests need besides Go, where it is missing: a C compiler for
# the race detector, Node.js with the npm package warcio, an independent reader
# of WARC files, Chromium and other clients, and zstd. Debian's packages are installed with apt-get; as another
# user than root it says what to install.
set -euo pipefail
cd "$(dirname "$0")"

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
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

if [ ! -d node/node_modules/warcio ] || [ ! -d node/node_modules/replaywebpage ]; then
	(cd node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
fi
