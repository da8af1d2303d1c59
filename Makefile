# What a fresh machine needs: the Rust toolchain, a C compiler, make, and npm or curl
# (for the library that queries run on). Everything else is in Cargo.lock.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
DATA := $(or $(FULMAR_DATA),./fulmar-data)
# One selection of packages and features for build, test and lint: cargo unites features
# over what is selected, so another selection would compile dependencies a second time.
SELECT := --workspace --locked
# The tests that need the fault hooks compiled in; only our own crates are built for them.
FAULTS := --features fulmar/faults,fulmar-flow/faults,fulmar-store/faults \
    --test crash --test crash_points --test crash_webhooks --test kill --test slow_disk

.PHONY: build run test bench openapi torture fmt fmt-check lint clean libduckdb help

help: ## Lists the targets.
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

libduckdb:
	@scripts/libduckdb >/dev/null

build: libduckdb ## Builds fulmar and fulmar-sql, and leaves both here.
	$(CARGO) build $(SELECT) --bins
	@target=$$(cd "$(TARGET)" && pwd); for program in fulmar fulmar-sql; do \
	    ln -sfn "$$target/debug/$$program" $$program; \
	done

run: build ## Builds, then serves from ./fulmar-data (or FULMAR_DATA).
	@exec ./fulmar serve --data "$(DATA)"

test: libduckdb ## Runs every test, a seeded sample of the crash matrix among them.
	$(CARGO) test $(SELECT)
	$(CARGO) test $(SELECT) $(FAULTS)

bench: build ## Measures each path, beside its control or the limit of the machine.
	./fulmar bench hotpath
	./fulmar bench ingest
	./fulmar bench track
	./fulmar bench replay
	./fulmar bench webhooks --saturate --webhooks 300 --payload 1

openapi: ## Writes docs/openapi.json anew, from the routes.
	FULMAR_WRITE_OPENAPI=1 $(CARGO) test $(SELECT) --bin fulmar openapi

torture: build ## Runs the whole crash matrix: every kill point, and many random kills.
	FULMAR_TORTURE=all $(CARGO) test $(SELECT) $(FAULTS)
	FULMAR_TORTURE=all $(CARGO) test $(SELECT) --lib -- --nocapture

fmt: ## Formats the code.
	$(CARGO) fmt --all

fmt-check:
	$(CARGO) fmt --all --check

lint: libduckdb ## Checks format and lints, as CI does first.
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(SELECT) --all-targets -- -D warnings

clean: ## Removes what was built, not the data.
	$(CARGO) clean
	rm -f fulmar fulmar-sql
