# Everything a fresh machine needs is installed by these targets; they ask for Python >= 3.11, git and make only.
PYTHON ?= python3
VENV := .venv
EXTRAS := [postgres,code,exact,ui,gateway,authorize]
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SECONDS ?= 3600
TARGET ?= aex
COUNT ?= 20
# one more than processors: tests of processes and clocks wait more than they compute
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# A machine that keeps no compiled modules would compile all of adjourn in each of the processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-core docs lint tools campaign cluster fuzz bench eval dist test-wheel lock clean

help:                ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml tests/constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "adjourn needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint tests/constraints.txt --editable '.$(EXTRAS)' --group dev --group release
	@touch $(READY)

demo: $(READY)       ## kill a session, and resume its work in another client
	$(BIN)/adjourn demo

tools: $(READY)      ## what the tests drive: PostgreSQL, Chromium, Node, real MCP servers
	$(BIN)/python tests/support/tools.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint tools     ## the checks and all tests but the slow ones: six minutes
	$(PYTEST) -m 'not slow'

test-all: $(READY)   ## the slow tests: browsers, kills, real clients and servers, conformance, wheels, this documentation
	$(BIN)/python tests/support/tools.py --clients
	$(PYTEST) -m slow

test-core: tools     ## the tests of the core alone, where no extra is installed
	$(MAKE) .venv-core/.ready VENV=.venv-core EXTRAS=
	.venv-core/bin/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m 'not slow'

docs: $(READY)       ## the documentation as a site, in .tools/site; a broken link is an error
	$(BIN)/python -m pip install --quiet --constraint tests/constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

campaign: tools      ## the long forms: a thousand kills, a million fuzzed lines, 500 examples of each property
	ADJOURN_CAMPAIGN=1 $(BIN)/python -m pytest --timeout 7200 $$(grep -rlE --include='test_*.py' 'ADJOURN_CAMPAIGN|^from hypothesis' tests)

cluster: $(READY)    ## a PostgreSQL cluster broken under load (COUNT=20); needs root, patroni, etcd-server and postgresql
	$(BIN)/python tests/cluster/run.py --count $(COUNT)

fuzz: $(READY)       ## the contract language under atheris, or with TARGET=frames clients' lines, an hour (SECONDS=3600)
	$(BIN)/python -m pip install --quiet --target .tools/atheris atheris
	mkdir -p .tools/corpus-$(TARGET) && cp -n examples/*/*.aex .tools/corpus-$(TARGET)
	PYTHONPATH=.tools/atheris $(BIN)/python tests/fuzz/fuzz_$(TARGET).py .tools/corpus-$(TARGET) \
		-dict=tests/fuzz/$(TARGET).dict -max_total_time=$(SECONDS) -max_len=4096 -timeout=20 -print_final_stats=1

bench: tools         ## the tables of tests/bench/RESULTS.md
	$(BIN)/python tests/bench/run.py

eval: $(READY)       ## what a successor learns from a hand-over: sixty scenarios, scored; fails if it is too little
	PYTHONPATH=tests:tests/bench $(BIN)/python -m evaluation
	PYTHONPATH=tests:tests/bench $(BIN)/python -m evaluation.sessions

dist: $(READY)       ## what a release consists of: wheel, sdist, SBOM and SHA256SUMS of the last commit
	$(BIN)/python tests/dist.py

test-wheel: $(READY) ## the wheel in each supported Python that is here, with each extra and the newest dependencies
	ADJOURN_CAMPAIGN=1 $(BIN)/python -m pytest -v tests/e2e/test_wheel.py

lock: $(READY)       ## renew the versions that the tests are run with
	$(BIN)/python -m pip freeze --exclude-editable > tests/constraints.txt

clean:
	rm -rf $(VENV) .venv-core .tools .demo dist
