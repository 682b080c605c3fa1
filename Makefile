# Every target sets itself up: .venv is built from requirements.txt when it is missing or stale.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test test-deep bench lint clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

setup: $(READY)  ## build .venv with everything pinned

$(READY): requirements.txt pyproject.toml tools/preflight.sh
	@python=$$(sh tools/preflight.sh) && \
	echo "setting up $(VENV) with $$python" && \
	$$python -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

demo: $(READY)  ## check and explain the turbine example
	$(BIN)/tidelog check examples/turbines/rules.tdl
	$(BIN)/tidelog explain examples/turbines/rules.tdl

lint: $(READY)  ## formatting, lint, types and layers
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache > .lint-imports.log || { cat .lint-imports.log; exit 1; }
	@rm -f .lint-imports.log

test: lint  ## everything that must hold: lint, types, layers, tests
	$(BIN)/pytest -q -n 2

test-deep: $(READY)  ## the generated tests, ten times as many
	TIDELOG_DEEP=10 $(BIN)/pytest -q -n 2 tests

bench: $(READY)  ## the benchmarks, as ratios
	$(BIN)/python -m benchmarks

clean:  ## remove what the other targets made
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
