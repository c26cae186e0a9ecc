# make broker    run the broker on embedded SQLite; make broker ARGS='--help' passes options on
# make test      install what the tests need, then lint, build the documentation and run the tests
# make test-all  the same with those that try very many values, and every store where one shows the same
# make check     what takes no server and no more than a minute or two, for in between
# make help      the other targets
PYTHON ?= python3
ARGS ?=
WORKERS ?= 5
CHOSEN := -m 'not exhaustive'
BIN := .venv/bin
# Brokers and Spark's workers are started by the hundred, and should not compile everything each time.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help broker check checked compiled test test-all lint docs test-servers lock benchmark benchmark-peer celery-suite jms-failover chaos chaos-proofs clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

broker: .venv/.broker ## run the broker, with ARGS
	@JDBCSTORE_WEB_BIND=$${JDBCSTORE_WEB_BIND-127.0.0.1:8161} exec $(BIN)/jdbcstore broker $(ARGS)

test: | .venv/bin/python ## install the test servers, lint, build the documentation, run the tests; ARGS go to pytest
	$(MAKE) --jobs=2 --output-sync test-servers .venv/.test
	$(MAKE) --jobs=3 --output-sync lint docs compiled
	$(IN_MEMORY) $(BIN)/python -m pytest -n $(WORKERS) --dist=worksteal $(CHOSEN) $(ARGS)

# Files in memory cost less, and nobody waits for a disk. `make test-all` keeps them on the disk, as who sets TMPDIR does.
IN_MEMORY = $(if $(TMPDIR),,$(addprefix TMPDIR=,$(shell scripts/memory-folder)))

test-all: CHOSEN :=
test-all: IN_MEMORY :=
test-all: export JDBCSTORE_TEST_EXAMPLES ?= 5
test-all: test ## the same with the tests that try very many values or every store, and five times the examples

check: .venv/.test ## lint, and the tests of units and the store contract, in memory and on SQLite; ARGS go to pytest
	$(MAKE) --jobs=2 lint checked

checked: .venv/.test
	$(IN_MEMORY) $(BIN)/python -m pytest -n auto --dist=worksteal -m 'not server and not exhaustive' \
	  tests/unit tests/contract/test_memory.py tests/contract/test_jdbc.py $(ARGS)

lint: .venv/.test ## ruff, mypy, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# What tests import is compiled once, and not by each worker for itself. An error is told by the run itself.
compiled: .venv/.test
	@$(BIN)/python -m pytest --collect-only --quiet $(CHOSEN) >/dev/null || true

docs: .venv/.test ## the documentation as a site, in build/site; no network, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

test-servers: | .venv/bin/python ## install database servers, Java and ActiveMQ for the tests
	scripts/install-test-servers

benchmark: test-servers .venv/.test ## compare with ActiveMQ on this machine, with ARGS
	$(BIN)/python -m benchmarks $(ARGS)

benchmark-peer: test-servers .venv/.test ## compare with RabbitMQ on this machine, with ARGS
	scripts/install-rabbitmq
	$(BIN)/python -m benchmarks.peer $(ARGS)

jms-failover: test-servers .venv/.test ## what a JMS client with failover: hears, of a real ActiveMQ and of ours; FAULTS=cut,unnoticed,killed
	JDBCSTORE_TEST_FAULTS=$(or $(FAULTS),cut) $(BIN)/python -m pytest tests/compat/jms_failover.py $(ARGS)

celery-suite: .venv/.test ## Celery's own integration tests, with our broker and with Redis; ARGS go to pytest
	scripts/celery-suite jdbcstore $(ARGS)
	scripts/celery-suite redis $(ARGS)

chaos: test-servers .venv/.test ## break brokers and database under load, check that nothing is lost; ARGS='--help'
	$(BIN)/python -m tests.failover.chaos $(ARGS)

chaos-proofs: test-servers .venv/.test ## the same with one protection of clusters off, each in turn: what breaks is found
	$(BIN)/python -m tests.failover.proofs $(ARGS)

# Both locks hold for every Python from 3.11 on and for every platform; they name no host. The build backend is locked too.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
  --custom-compile-command 'make lock'
LOCK = printf 'editables\nhatchling\n' | $(COMPILE) pyproject.toml -

lock: .venv/bin/python ## choose the newest versions anew: requirements.lock, requirements-test.lock
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) --upgrade --extra all --output-file requirements.lock >/dev/null
	$(LOCK) --upgrade --extra test --constraint requirements.lock --output-file requirements-test.lock >/dev/null
	printf 'async-timeout\npytest-rerunfailures\nredis\n' | $(COMPILE) --upgrade --no-deps --output-file scripts/celery-suite.lock - >/dev/null
	echo 'patroni[etcd3,zookeeper,psycopg2-binary]' | $(COMPILE) --upgrade --output-file scripts/patroni.lock - >/dev/null
	echo uv | $(COMPILE) --upgrade --output-file scripts/uv.lock - >/dev/null

clean: ## remove what was built; the test servers stay
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build

.venv/.broker: requirements.lock pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.venv/.test: requirements-test.lock pyproject.toml | .venv/bin/python
	scripts/install-packages requirements-test.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Debian's python3 has no ensurepip unless python3-venv is installed: then the pip beside it fills the environment.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jdbcstore needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv .venv >/dev/null || { \
	  rm -rf .venv; $(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip --quiet --python .venv/bin/python install pip; }
