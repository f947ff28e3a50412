# Everything runs in .venv, which `make install` builds from requirements.lock.
# Each target sets up what it needs; the files under .venv/.stamps say what is done already.

VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

# HTTP port of the demo
PORT ?= 8000
# the demo ends by itself after so many seconds and judges what it saw; empty: until Ctrl-C
SECONDS ?=
# processes that run tests: most wait for servers, so that four fit on two cores; 0: this one
WORKERS ?= 4
# benchmarks to run, as name[,name]; empty: all
ONLY ?=

PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check

COMPILE     := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header

# bytecode is kept: tests start hundreds of processes, and each would compile all modules
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install jars demo test unit quick check format docs pictures bench sbom audit lock clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

install: $(STAMPS)/project jars  ## set up .venv, a Java runtime included, and Kafka's jars

jars: $(STAMPS)/project  ## fetch Kafka's jars into the user's cache (checked each time, fetched once)
	@$(BIN)/python -m lagwatch.kafka.embedded jars >/dev/null

demo: install  ## real Kafka, groups in every state, their verdicts [SECONDS=60] [PORT=8000]
	$(BIN)/lagwatch demo $(if $(SECONDS),--seconds $(SECONDS)) --port $(PORT)

test: install  ## all tests [WORKERS=0] [THOROUGH=1]
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
		--durations 40 --durations-min 20

unit: $(STAMPS)/project  ## the pure rules and decoders alone, with few examples each: seconds
	$(BIN)/pytest --quiet --numprocesses 0 -m "not server and not slow" \
		--hypothesis-profile quick tests/unit/core

quick: $(STAMPS)/project  ## all quick tests that need no server: about two minutes
	$(BIN)/pytest --quiet --numprocesses 0 -m "not server and not slow" \
		--hypothesis-profile quick tests/unit tests/scenarios tests/contract

check: $(STAMPS)/project  ## format, lint, types, import contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMPS)/project  ## format and apply the linter's safe fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(STAMPS)/project  ## write the generated parts of the manual, and the output it shows
	$(BIN)/python -m docs.build

pictures: install  ## make the pictures of the manual anew, from the demo: ten minutes
	$(BIN)/python -m docs.pictures

bench: install  ## measure speed and memory against their targets [ONLY=name,name]
	$(BIN)/python tests/bench/run.py $(ONLY)

sbom: $(STAMPS)/project  ## bill of materials (CycloneDX) of this version, for a release: dist/lagwatch.cdx.json
	@mkdir -p dist
	$(BIN)/python deploy/sbom.py > dist/lagwatch.cdx.json

audit: | $(BIN)/python  ## known faults of the locked packages, by the advisories of the Python Package Index
	$(BIN)/python -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --disable-pip-version-check --quiet pip-audit
	$(VENV)/audit/bin/pip-audit --requirement requirements.lock --require-hashes --disable-pip

lock: $(STAMPS)/project  ## choose the newest versions pyproject.toml allows and lock them
	$(PIP_INSTALL) --quiet uv
	$(COMPILE) --extra embedded --extra elastic --extra apprise --extra msk --extra spark --extra transactions --group dev pyproject.toml \
		-o requirements.lock

clean:  ## remove .venv and everything built or cached in this directory
	rm -rf $(VENV) .demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find api docs grafana lagwatch tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "lagwatch needs Python 3.11 or newer: install it, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "$(PYTHON) cannot make virtual environments: on Debian, apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/wheels: requirements.lock | $(BIN)/python
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/project: pyproject.toml $(STAMPS)/wheels
	$(PIP_INSTALL) --quiet --no-build-isolation --no-deps --editable .
	@touch $@
