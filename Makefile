# Everything a person does with Penstock. `make` alone lists it.
.DEFAULT_GOAL := help
LISTEN ?= 127.0.0.1:8080
DATA ?= data
URL ?= http://$(LISTEN)
SCENARIO ?= thirty-thousand-for-two-hundred
# How Redis runs in `make cluster`: cluster, sentinel or single.
REDIS ?= cluster
CLUSTER ?= target/cluster
# What runs on this machine tells a rehearsal how to come in, and is audited afterwards. A cluster that was killed has left
# its configuration behind; so it counts only if its process lives, and if it is the one that is asked.
CLUSTER_RUNS = $(shell { read process url < $(CLUSTER)/local-cluster; } 2> /dev/null && \
	test "$$url" = "$(URL)" && kill -0 $$process 2> /dev/null && echo yes)
RUNNING = $(if $(CLUSTER_RUNS),--config $(CLUSTER)/cluster.toml,$(if $(wildcard $(DATA)/demo.json),--data $(DATA)))

# What the pages are made of, folders too, so that a file that is gone is noticed. Their types are made from openapi.json.
PAGES = $(shell find web/src web/public ! -name schema.d.ts) web/index.html web/console.html web/openapi.json \
	web/package.json web/svelte.config.js web/tsconfig.json web/vite.config.ts web/scripts/compress.mjs

.PHONY: help run rush cluster web openapi test bench figures screenshots fmt
# Half a build is none.
.DELETE_ON_ERROR:

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: web ## build and start a shop with a demo sale that opens in 30 seconds (LISTEN=…, DATA=…)
	cargo build --release --locked --bin penstock
	target/release/penstock serve --demo --listen $(LISTEN) --data $(DATA)

rush: web ## send simulated buyers at what `make run` or `make cluster` started, and verify the outcome (URL=…, SCENARIO=…, ARGS=…)
	cargo build --release --locked --bin penstock
	target/release/penstock rush --url $(URL) --scenario $(SCENARIO) $(RUNNING) $(ARGS)

cluster: web ## start 3 nodes, 2 settlement workers, nginx, Redis and MariaDB on loopback, until Ctrl-C (LISTEN=…, REDIS=cluster|sentinel|single)
	cargo build --release --locked --bin penstock --bin penstock-local-cluster
	target/release/penstock-local-cluster --server target/release/penstock --listen $(LISTEN) --redis $(REDIS) --folder $(CLUSTER)

web: web/dist/index.html ## build the pages of the shop and the console, if something has changed; cargo puts web/dist into the binary

web/dist/index.html: web/node_modules/.package-lock.json $(PAGES)
	cd web && npm run build

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci
	touch $@

openapi: ## renew web/openapi.json, from which the types of the pages are made, after a change of the API
	cargo build --locked --bin penstock
	target/debug/penstock openapi > target/openapi.json
	cmp -s target/openapi.json web/openapi.json || mv target/openapi.json web/openapi.json

test: web ## everything: format, lints, unit, property, crash, end-to-end and browser tests, every interleaving of the latch
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked
	RUSTFLAGS="--cfg loom" cargo test --locked -p penstock-gate --test latch_interleavings --profile loom --target-dir target/loom
	cd web && npm run check
	cd web && npm test
	cargo build --locked --bin penstock
	cd web && npm run e2e

bench: web ## measure against MariaDB, Redis and nginx on this machine; writes target/bench/report.{json,html}
	cargo build --release --locked --bin penstock --bin penstock-bench
	cargo build --release --locked -p penstock-ledger --example claims_at -p penstock-records --example settle_rate
	target/release/penstock-bench --server target/release/penstock

figures: web ## what a first visit to the pages costs on a slow phone: bytes, requests, times
	cargo build --release --locked --bin penstock
	cd web && PENSTOCK_BIN=target/release/penstock npm run --silent figures

screenshots: web ## renew the pictures of the pages in docs/images
	cargo build --release --locked --bin penstock
	cd web && PENSTOCK_BIN=target/release/penstock npm run --silent screenshots

fmt: web/node_modules/.package-lock.json ## format the code
	cargo fmt --all
	cd web && npm run format
