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

.PHONY: help run rush cluster test bench fmt

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and start a shop with a demo sale that opens in 30 seconds (LISTEN=…, DATA=…)
	cargo build --release --locked --bin penstock
	target/release/penstock serve --demo --listen $(LISTEN) --data $(DATA)

rush: ## send simulated buyers at what `make run` or `make cluster` started, and verify the outcome (URL=…, SCENARIO=…, ARGS=…)
	cargo build --release --locked --bin penstock
	target/release/penstock rush --url $(URL) --scenario $(SCENARIO) $(RUNNING) $(ARGS)

cluster: ## start 3 nodes, 2 settlement workers, nginx, Redis and MariaDB on loopback, until Ctrl-C (LISTEN=…, REDIS=cluster|sentinel|single)
	cargo build --release --locked --bin penstock --bin penstock-local-cluster
	target/release/penstock-local-cluster --server target/release/penstock --listen $(LISTEN) --redis $(REDIS) --folder $(CLUSTER)

test: ## everything: format, lints, unit, property, crash and end-to-end tests, every interleaving of the latch
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked
	RUSTFLAGS="--cfg loom" cargo test --locked -p penstock-gate --test latch_interleavings --profile loom --target-dir target/loom

bench: ## measure against MariaDB, Redis and nginx on this machine; writes target/bench/report.{json,html}
	cargo build --release --locked --bin penstock --bin penstock-bench
	cargo build --release --locked -p penstock-ledger --example claims_at -p penstock-records --example settle_rate
	target/release/penstock-bench --server target/release/penstock

fmt: ## format the code
	cargo fmt --all
