# Each target does all set-up that it needs: Python 3.11 or newer is enough to start with.
BIN := .venv/bin
.DEFAULT_GOAL := help
.PHONY: help demo demo-clicks demo-orders test check lint mutants docs test-k8s soak soak-streams bench bench-incremental bench-step bench-connectors bench-planner bench-planner-huge bench-launch bench-listings bench-streams bench-windows bench-changes bench-branches editor pictures lock clean setup bench-s3 bench-iceberg matrix

help:  ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):.*  ## \(.*\)/\1 \2/p' Makefile | while read -r name text; do printf '  make %-18s %s\n' "$$name" "$$text"; done

demo: setup  ## the flights example on real data: first run, no-op, late file, edit and revert
	@$(BIN)/headgate demo

demo-clicks: setup  ## streams from Kafka: late orders, a correction, change data, a branch, a killed driver
	@$(BIN)/python -m tests.demo_clicks

demo-orders: setup  ## Kafka, PostgreSQL and files on S3 in, Delta, PostgreSQL and Kafka out, with servers of its own
	@$(BIN)/python -m tests.demo_orders

test: setup  ## every test (of sweeps a slice), on real Spark and real servers that they start themselves, two files at a time
	@$(BIN)/python -m tests.rerun -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations=30 tests

check: lint  ## what lint checks, unit and property tests; about a minute
	@$(BIN)/python -m pytest --quiet -n 2 -m "not slow and not soak" tests/unit tests/property

lint: setup  ## format, style, types, import contracts, and that no figure of scripts/measure-code grew
	@$(BIN)/ruff format --quiet --check || { $(BIN)/ruff format --check; exit 1; }
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/measure-code --quiet

mutants: setup  ## faults that the tests of each room must find; writes benchmarks/results/mutants.md (ARGS=store runs those)
	@$(BIN)/python scripts/mutants $(ARGS)

test-k8s: setup  ## the control plane and Spark as pods of a real Kubernetes of one node; Linux, root and Go
	@$(BIN)/python -m tests.cluster.whole $(BIN)/python -m pytest tests/pods -m pods

docs: setup  ## the pages as a site in build/docs, its links checked; open build/docs/index.html
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs --doctree-dir build/doctrees . build/docs

soak: setup  ## all of each sweep; property tests and random faults for much longer, with new seeds
	@$(BIN)/python -m pytest tests --hypothesis-profile=soak -m "soak or property or sweep"

soak-streams: setup  ## an hour of 10,000 messages a second: exit 1 if memory, lag or the Delta log grows (ARGS="--minutes 6 --rate 1000")
	@$(BIN)/python benchmarks/stream_soak.py $(ARGS)

bench: setup  ## measure against a hand-written PySpark script; writes benchmarks/results/
	@$(BIN)/python benchmarks/loop.py

bench-incremental: setup  ## TPC-H by month beside plain PySpark and Declarative Pipelines (half an hour)
	@$(BIN)/python benchmarks/incremental.py $(ARGS)
	@$(BIN)/python benchmarks/many_tasks.py
	@$(BIN)/python benchmarks/declarative.py $(ARGS)

bench-step: setup  ## the parts of one small step through a warm service (ARGS="--rounds 3")
	@$(BIN)/python benchmarks/steps.py $(ARGS)

bench-connectors: setup  ## files, JDBC, Kafka and listings beside plain Spark and obstore (ARGS=--scale 0.05)
	@$(BIN)/python benchmarks/connectors.py $(ARGS)

bench-planner: setup  ## measure planning on SQLite and PostgreSQL (ARGS=--peers: SQLMesh and Dagster too)
	@$(BIN)/python benchmarks/planner.py $(ARGS)

bench-planner-huge: setup  ## the same with 100 million partitions: minutes, and gigabytes of disk for a while
	@$(BIN)/python benchmarks/planner.py --huge $(ARGS)

bench-launch: setup  ## from a driver's Job to its first claim, on the cluster of test-k8s (ARGS=--rounds 10)
	@$(BIN)/python -m tests.cluster.whole $(BIN)/python benchmarks/launch.py $(ARGS)

bench-branches: setup  ## what a branch costs beside 10,000 components, on SQLite and PostgreSQL (ARGS=--keep)
	@$(BIN)/python benchmarks/branches.py $(ARGS)

bench-streams: setup  ## messages to a Delta table beside plain Structured Streaming: latency, CPU (ARGS="--seconds 20 --rest 0")
	@$(BIN)/python benchmarks/streams.py $(ARGS)

bench-windows: setup  ## totals of each minute of a stream, and late rows, beside plain Structured Streaming (ARGS="--seconds 20")
	@$(BIN)/python benchmarks/stream_windows.py $(ARGS)

bench-changes: setup  ## a million keys, and batches of changed ones, beside Delta's MERGE (ARGS="--keys 100000 --batches 3")
	@$(BIN)/python benchmarks/change_data.py $(ARGS)

bench-listings: setup  ## small folders of many dataflows, listed by one service in a second (ARGS="--flows 400")
	@$(BIN)/python benchmarks/listings.py $(ARGS)

editor:  ## make controlplane/ui/static/codemirror.js anew from the packages of scripts/editor; needs Node
	@scripts/editor/make

pictures: setup  ## photograph the pages of the demo's home for README and docs/pages.md (ARGS=--home DIR takes that home)
	@$(BIN)/python -m tests.browser.pictures $(ARGS)

bench-iceberg: setup  ## first pages of plans of the Iceberg catalogue over 5 million partitions (ARGS="--days 20000 --keep")
	@$(BIN)/python benchmarks/iceberg_plans.py $(ARGS)

bench-s3: setup  ## the S3 view: a listing of 100,000 keys, HEAD, and GET beside the disk (ARGS=--keep)
	@$(BIN)/python benchmarks/s3_view.py $(ARGS)

matrix: setup  ## read every type by every engine and way in; fails if a gap is new or closed (ARGS=--keep, ARGS="--engines DuckDB")
	@$(BIN)/python -m benchmarks.readers $(ARGS)

lock:  ## make requirements.lock anew from pyproject.toml
	@scripts/lock

clean:  ## remove what was made here; downloads stay in the user's cache
	@rm -rf .venv .venv-uv .headgate .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@scripts/setup
