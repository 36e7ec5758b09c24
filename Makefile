# The commands for working with Penstock. `make` alone lists them.
.DEFAULT_GOAL := help
LISTEN ?= 127.0.0.1:8080
DATA ?= data
URL ?= http://$(LISTEN)
SCENARIO ?= thirty-thousand-for-two-hundred
# How Redis runs in `make cluster`: cluster, sentinel or single.
REDIS ?= cluster
CLUSTER ?= target/cluster
# A rehearsal gets its secrets from the shop or the cluster on this machine, and audits it afterwards. A killed
# cluster leaves its configuration behind. So a cluster is used only if its process lives and has the URL to
# rehearse.
CLUSTER_RUNS = $(shell { read process url < $(CLUSTER)/local-cluster; } 2> /dev/null && \
	test "$$url" = "$(URL)" && kill -0 $$process 2> /dev/null && echo yes)
RUNNING = $(if $(CLUSTER_RUNS),--config $(CLUSTER)/cluster.toml,$(if $(wildcard $(DATA)/demo.json),--data $(DATA)))

# The sources of the pages. Folders are listed, too, so that make notices a deleted file. The pages' types are
# made from openapi.json.
PAGES = $(shell find web/src web/public ! -name schema.d.ts) web/index.html web/console.html web/openapi.json \
	web/package.json web/svelte.config.js web/tsconfig.json web/vite.config.ts web/scripts/compress.mjs

.PHONY: help run rush cluster web openapi test bench figures screenshots fmt
# Delete a target whose build failed halfway.
.DELETE_ON_ERROR:

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: web ## build and start a shop with a demo sale that opens in 30 seconds (LISTEN=…, DATA=…)
	cargo build --release --locked --bin penstock
	target/release/penstock serve --demo --listen $(LISTEN) --data $(DATA)

rush: web ## send simulated buyers to what `make run` or `make cluster` started, and verify the outcome (URL=…, SCENARIO=…, ARGS=…)
	cargo build --release --locked --bin penstock
	target/release/penstock rush --url $(URL) --scenario $(SCENARIO) $(RUNNING) $(ARGS)

cluster: web ## start 3 nodes, 2 settlement workers, nginx, Redis and MariaDB on loopback, until Ctrl-C (LISTEN=…, REDIS=cluster|sentinel|single)
	cargo build --release --locked --bin penstock --bin penstock-local-cluster
	target/release/penstock-local-cluster --server target/release/penstock --listen $(LISTEN) --redis $(REDIS) --folder $(CLUSTER)

web: web/dist/index.html ## build the pages of the shop and the console if something has changed; cargo puts web/dist into the binary

web/dist/index.html: web/node_modules/.package-lock.json $(PAGES)
	cd web && npm run build

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci
	touch $@

openapi: ## renew web/openapi.json after a change of the API; the pages' types are made from it
	cargo build --locked --bin penstock
	target/debug/penstock openapi > target/openapi.json
	cmp -s target/openapi.json web/openapi.json || mv target/openapi.json web/openapi.json

test: web ## run everything: format, lints, unit, property, crash, end-to-end and browser tests, and every interleaving of the latch
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
	target/release/penstock-bench --server target/release/penstock

figures: web ## measure a first visit to the pages on a slow phone: bytes, requests, times
	cargo build --release --locked --bin penstock
	cd web && PENSTOCK_BIN=target/release/penstock npm run --silent figures

screenshots: web ## renew the pictures of the pages in docs/images
	cargo build --release --locked --bin penstock
	cd web && PENSTOCK_BIN=target/release/penstock npm run --silent screenshots

fmt: web/node_modules/.package-lock.json ## format the code
	cargo fmt --all
	cd web && npm run format
