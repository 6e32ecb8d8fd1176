# The commands of the project. `make demo` and `make test` do all set-up themselves.
# Every path is relative, so a clone may live in a folder with a space in its name.
.PHONY: help setup demo test check bench fuzz prove properties protos meter docs clean test-agent-py310
.DEFAULT_GOAL := help

PY := .venv/bin/python
PACKAGES := protos dpu_agent switch controller hil
# Tests with real daemons run one after another; the others beside them (tests/conftest.py).
PYTEST_ARGS ?= -n 2 --dist loadgroup

help: ## list the commands
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## system packages and .venv (root only when a package is missing)
	@hil/setup.sh

demo: setup ## the main job on real traffic: build/demo/
	@$(PY) -m hil.demo

test: setup ## all tests
	@$(PY) -m pytest $(PYTEST_ARGS)

check: setup ## style, types, import contracts, generated files
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy $(PACKAGES) tests
	.venv/bin/lint-imports
	$(PY) -m protos.generate --check
	$(PY) -m controller.clireference --check
	$(PY) -m hil.meterobject --check

test-agent-py310: setup ## the agent's tests on the DPU's Python 3.10
	@hil/test-agent-py310.sh

bench: setup ## figures, one JSON line each; AREA=main|meter|limits|switch|crosscheck|evidence|faults|rules|planner
	@$(PY) -m hil.bench $(AREA)

fuzz: setup ## bounded coverage-guided fuzzing (atheris; Python 3.11); AREA=evidence|switch, SECONDS=120
	@$(PY) -c 'import atheris' 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	@$(PY) -m hil.fuzz $(or $(AREA),evidence) --seconds $(or $(SECONDS),120)

prove: setup ## honest runs accuse nobody, no lie above the printed bound goes unseen: 10 runs on a rig, 11 minutes
	@$(PY) -m hil.pollerproof

properties: setup ## bounds, laws and windows against simulated truth, TIMES=10 times as many cases as the suite has
	@PROPERTY_CASES_TIMES=$(or $(TIMES),10) $(PY) -m pytest -q -n 2 tests/controller/crosscheck

protos: setup ## regenerate protos/v1/*_pb2* from the .proto files
	$(PY) -m protos.generate

meter: setup ## compile the in-kernel meter again (dpu_agent/meter/meter.bpf.o)
	$(PY) -m hil.meterobject

docs: setup ## regenerate the generated reference pages
	$(PY) -m controller.clireference

clean: ## remove what was built (not .venv)
	rm -rf build dist
