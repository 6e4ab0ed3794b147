# make test    everything that has to pass before a commit, in a few minutes
# make fuzz    each fuzz target for FUZZTIME
# make crash   kills the program CRASH_ROUNDS times at random moments, in some minutes
# make bench   what recording costs, in about two minutes; on a quiet machine
# make build   the program, ./warctee

FUZZTIME ?= 1m
CRASH_ROUNDS ?= 200

.PHONY: build test check fuzz crash bench tools

build:
	go build -o warctee ./cmd/warctee

test: tools check
	go test -race ./...

check:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

# What the tests need besides Go; installed where it is missing.
tools:
	@testdata/tools.sh

fuzz:
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

# CRASH_SEED=… repeats the moments of an earlier run, as it has told them.
crash:
	CRASH_ROUNDS=$(CRASH_ROUNDS) go test -count=1 -v -timeout 2h -run '^TestCrashes$$' ./cmd/warctee

bench:
	go run ./bench
