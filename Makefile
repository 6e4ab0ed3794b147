# make            the program, ./warctee
# make help       this list
# make man        manual pages, in ./man
# make test       everything that has to pass before a commit, in about twelve minutes
# make fuzz       each fuzz target for FUZZTIME
# make crash      kills the program CRASH_ROUNDS times at random moments, in some minutes
# make powerloss  cuts the power POWERLOSS_ROUNDS times, in some minutes; as root, on Linux
# make bench      what recording costs, in about a quarter of an hour; on a quiet machine

FUZZTIME ?= 1m
CRASH_ROUNDS ?= 200
POWERLOSS_ROUNDS ?= 50

.PHONY: build help man test check vulncheck fuzz crash powerloss bench tools

build:
	go build -o warctee ./cmd/warctee

help:
	@sed -n 's/^# make/make/p' Makefile

man:
	go run ./cmd/warctee man man

test: tools check vulncheck
	go test -race -timeout 1h ./...

check:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

# Known vulnerabilities, where their database can be reached.
vulncheck:
	@testdata/vulncheck.sh

# What the tests need besides Go; installed where it is missing.
tools:
	@testdata/tools.sh

# Inputs are made smaller in a few tries: it would take most of the time.
fuzz:
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg; \
		done; \
	done

# CRASH_SEED=… repeats the moments of an earlier run, as it has told them.
crash:
	CRASH_ROUNDS=$(CRASH_ROUNDS) go test -count=1 -v -timeout 2h -run '^TestCrashes$$' ./cmd/warctee

# On a file system of its own, in a mount namespace of its own. POWERLOSS_SEED=…
# repeats the moments of an earlier run.
powerloss:
	POWERLOSS_ROUNDS=$(POWERLOSS_ROUNDS) unshare --mount --propagation private \
		go test -count=1 -v -timeout 2h -run '^TestPowerLoss$$' ./cmd/warctee

# BENCH=growth measures something else, BENCH='-mixes page -rounds 9' less or more
# of the same; see docs/performance.md.
bench:
	go run ./bench $(BENCH)
