# Every target sets itself up: .venv is built from requirements.txt when it is missing or stale.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests start many processes, each of which would compile the source anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test whole-suite test-fast test-deep test-sim test-crash test-chaos test-cluster test-connectors test-browser test-editors vsix bench bench-flink hashes lint clean

# An environment knows its own place: after the folder was moved or copied, or its Python is gone, it is built anew.
ifneq ($(shell test -x $(BIN)/python && $(BIN)/python -c '' 2>&1 && cat $(READY) 2>&1),$(shell pwd -P))
.PHONY: $(READY)
endif

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

setup: $(READY)  ## build .venv with everything pinned

$(READY): requirements.txt pyproject.toml tools/preflight.sh
	@python=$$(sh tools/preflight.sh) && \
	echo "setting up $(VENV) with $$python" && \
	"$$python" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@pwd -P > $@

demo: $(READY)  ## the turbine example: checked, tested, explained, queried, and run as a stream on Spark
	$(BIN)/tidelog check examples/turbines/rules.tdl
	$(BIN)/tidelog test examples/turbines --coverage
	$(BIN)/tidelog explain examples/turbines/rules.tdl
	$(BIN)/tidelog query examples/turbines/rules.tdl --facts examples/turbines/facts --format table
	$(BIN)/tidelog run examples/turbines/rules.tdl --facts examples/turbines/facts --query Malfunc

lint: $(READY)  ## formatting, lint, types and layers
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	@said=$$($(BIN)/lint-imports --no-cache) || { echo "$$said"; exit 1; }

test: $(READY)  ## everything that must hold: lint, types, layers, tests
	@$(MAKE) --no-print-directory -j 2 lint whole-suite

# Beside lint: Spark often waits, and leaves a core idle.
whole-suite: $(READY)
	$(BIN)/pytest -q -n 2 --dist loadgroup

FAST := src tests/test_cases.py $(wildcard $(addprefix tests/,language logic analysis data evaluation streaming explain))
test-fast: $(READY)  ## while you work: no Spark, no processes, a tenth of the generated examples
	TIDELOG_DEEP=0.1 $(BIN)/pytest -q -n 2 -m "not slow" $(FAST)

test-deep: $(READY)  ## the generated tests only, ten times as many
	TIDELOG_DEEP=10 $(BIN)/pytest -q -n 2 --dist loadgroup tests

test-sim: $(READY)  ## simulated histories of the commit protocol: SIM_HISTORIES (100000) or SIM_MINUTES; SIM_FIRST is the first seed
	PYTHONPATH=tests $(BIN)/python -m sim

test-crash: $(READY)  ## streams on Spark killed at every write and at random moments
	TIDELOG_CRASH=1 $(BIN)/pytest -q -n 2 tests/crash

test-chaos: $(READY)  ## streams on Spark under every kind of accident, for CHAOS_MINUTES (10)
	TIDELOG_CHAOS=1 $(BIN)/pytest -q -n 0 tests/chaos

test-cluster: $(READY) build/cluster-venv/.ready  ## streams on a standalone Spark cluster on loopback, with executors and drivers killed
	TIDELOG_CLUSTER=1 TIDELOG_WORKER_PYTHON=$(CURDIR)/build/cluster-venv/bin/python $(BIN)/pytest -q -n 0 tests/cluster

test-connectors: $(READY) build/connectors-venv/.ready  ## streams from and to Kafka, Delta and S3, with servers on loopback; jars come from Maven, once
	TIDELOG_CONNECTORS=1 $(BIN)/pytest -q -n 0 tests/connectors

# A server that speaks S3, whose pins are its own.
build/connectors-venv/.ready: requirements-connectors.txt $(READY)
	$(BIN)/python -m venv --clear build/connectors-venv
	@build/connectors-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-connectors.txt
	@touch $@

# The Python of the cluster's workers, which has no tidelog: it is sent there.
build/cluster-venv/.ready: requirements-worker.txt $(READY)
	$(BIN)/python -m venv --clear build/cluster-venv
	@build/cluster-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-worker.txt
	@touch $@

test-browser: $(READY)  ## the report in headless Chromium; screenshots in build/browser
	@command -v chromium chromedriver >/dev/null 2>&1 || \
	{ echo "Chromium and its driver are needed: apt install chromium chromium-driver"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt
	$(BIN)/pytest -q -n 0 tests/browser/report_in_chromium.py

VSCODE := editors/vscode
test-editors: $(READY) $(VSCODE)/node_modules/.ready  ## the VS Code extension and its grammar, on Node
	cd $(VSCODE) && PATH="$(CURDIR)/$(BIN):$$PATH" npm test

vsix: $(VSCODE)/node_modules/.ready  ## the VS Code extension as build/tidelog.vsix
	@mkdir -p build && cp LICENSE $(VSCODE)/LICENSE
	cd $(VSCODE) && npm run package

$(VSCODE)/node_modules/.ready: $(VSCODE)/package-lock.json
	@command -v npm >/dev/null 2>&1 || \
	{ echo "Node and npm are needed for the VS Code extension: apt install nodejs npm"; exit 1; }
	cd $(VSCODE) && npm ci --ignore-scripts
	@touch $@

bench: $(READY)  ## the benchmarks, as ratios
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	$(BIN)/python -m benchmarks

FLINK := build/flink-venv
bench-flink: $(READY) $(FLINK)/.ready  ## streams on Spark, beside Flink in an environment of its own
	$(BIN)/python -m benchmarks spark_stream nexmark

$(FLINK)/.ready: requirements-flink.txt
	@python=$$(sh tools/preflight.sh) && "$$python" -m venv --clear $(FLINK)
	@$(FLINK)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-flink.txt
	@touch $@

HASHES := build/hashes-venv
hashes: $(HASHES)/.ready  ## the hashes of every pinned version, anew: after a version was edited
	sh tools/hashes.sh $(HASHES)/bin/pip-compile requirements*.txt

$(HASHES)/.ready: Makefile
	@python=$$(sh tools/preflight.sh) && "$$python" -m venv --clear $(HASHES)
	@$(HASHES)/bin/python -m pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	@touch $@

clean:  ## remove what the other targets made
	rm -rf $(VENV) dist build $(VSCODE)/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
