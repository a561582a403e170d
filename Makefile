# Everything a newcomer, a developer and CI run. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo || true)

# What a build needs besides Rust: a C compiler, make and cmake (for zlib-ng, zstd and ring).
BUILD_TOOLS := cc make cmake
# What the tests need on top: a browser, and Node.js to drive it; networks with links to cut, and clocks to set.
TEST_TOOLS := chromium node npm ip nft faketime

# install(tool): the tool's package, by whichever package manager is here.
define install
	if command -v $(1) >/dev/null; then exit 0; fi; \
	echo "installing $(1)"; \
	if command -v apt-get >/dev/null; then \
		case $(1) in cc) p=gcc;; node) p=nodejs;; ip) p=iproute2;; nft) p=nftables;; *) p=$(1);; esac; \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive sh -c "apt-get -qq update && apt-get -qq install -y --no-install-recommends $$p libc6-dev" >/dev/null; \
	elif command -v dnf >/dev/null; then \
		case $(1) in cc) p=gcc;; node) p=nodejs;; ip) p=iproute;; nft) p=nftables;; faketime) p=libfaketime;; *) p=$(1);; esac; \
		$(SUDO) dnf -q install -y $$p; \
	elif command -v apk >/dev/null; then \
		case $(1) in cc) p="gcc musl-dev";; node) p=nodejs;; ip) p=iproute2;; nft) p=nftables;; faketime) p=libfaketime;; *) p=$(1);; esac; \
		$(SUDO) apk add -q $$p; \
	elif command -v brew >/dev/null; then \
		case $(1) in cc) p=gcc;; *) p=$(1);; esac; \
		brew install -q $$p; \
	else \
		echo "please install $(1): no package manager that this Makefile knows is here" >&2; exit 1; \
	fi
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build-needs
build-needs:
	@command -v $(CARGO) >/dev/null || { echo "please install Rust 1.90 or newer first: https://rustup.rs" >&2; exit 1; }
	@for tool in $(BUILD_TOOLS); do $(MAKE) -s --no-print-directory need-$$tool; done

.PHONY: test-needs
test-needs: build-needs
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
	@for tool in $(TEST_TOOLS); do $(MAKE) -s --no-print-directory need-$$tool; done

need-%:
	@$(call install,$*)

.PHONY: build
build: build-needs ## build the program for use: target/release/anteroom
	$(CARGO) build --release --locked --bin anteroom

.PHONY: run
run: build-needs ## build, and show a waiting room at work on http://127.0.0.1:8080
	$(CARGO) run --locked --bin anteroom -- demo

.PHONY: fleet
fleet: build-needs ## build, and run three nodes of a fleet on this machine: conf/fleet
	$(CARGO) build --locked --workspace
	conf/fleet/run.sh "$${CARGO_TARGET_DIR:-target}/debug/anteroom" "$${CARGO_TARGET_DIR:-target}/debug/anteroom-load"

.PHONY: test
test: test-needs lint ## everything that has to pass, its own needs installed
	$(CARGO) test --locked --workspace --no-fail-fast
	$(MAKE) --no-print-directory test-browser

.PHONY: test-browser
test-browser: test-needs ## the waiting page in headless Chromium
	$(CARGO) build --locked --bin anteroom
	cd tests/browser && npm ci --silent && CHROMIUM="$${CHROMIUM:-$$(command -v chromium)}" npm test

.PHONY: test-long
test-long: test-needs ## the long forms: full-size rushes, 10,000 seeds
	@# One at a time: a rush keeps 15,000 connections.
	ANTEROOM_LONG=1 $(CARGO) test --profile swift --locked --workspace -- --test-threads=1

.PHONY: bench
bench: build-needs ## micro-benchmarks, then polls and proxied requests against a bare Pingora
	$(CARGO) bench --locked --package anteroom
	$(CARGO) run --release --locked --package anteroom-load -- bench

.PHONY: lint
lint: ## format and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: fmt
fmt: ## format
	$(CARGO) fmt --all

.PHONY: image
image: ## build the container image
	docker build --tag anteroom .
