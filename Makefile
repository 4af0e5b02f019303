# `make` prints what there is. Needs Python 3.11 or newer; the rest it fetches itself.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
BOOTSTRAP := $(PYTHON) config/run/bootstrap.py

.DEFAULT_GOAL := help
.PHONY: help run test check bench format lock proto
.SILENT:

help: ## what there is
	sed -n 's/^\([a-z-]*\):.*## /  make \1 \t/p' Makefile | expand -t 22

run: server ## start Vela: PostgreSQL, broker, console, worker, beat
	exec $(RUN) -m config.run

test: tests-need ## run all tests
	$(RUN) -m pytest $(PYTEST)

check: development ## format, lint, types, imports, migrations, templates
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m ruff check --quiet .
	$(RUN) -m mypy --no-error-summary .
	$(VENV)/bin/lint-imports --no-cache | sed -n '/^Contracts:/p; /BROKEN/p; /->/p; /Broken/,$$p'
	$(RUN) manage.py makemigrations --check --dry-run
	$(RUN) manage.py check --deploy --fail-level WARNING
	if [ -d templates ]; then $(VENV)/bin/djlint templates --check --quiet && $(VENV)/bin/djlint templates --lint --quiet; fi

bench: development ## measure it: BENCH="--quick", BENCH="--only latency" (bench/METHODOLOGY.md)
	$(RUN) -m bench $(BENCH)

format: development ## format the code
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

lock: development ## compile the dependency lists again, with hashes
	$(RUN) config/run/lock.py

proto: development ## compile the protobuf definitions
	$(RUN) -m grpc_tools.protoc

.PHONY: python server development tests-need
python:
	$(PYTHON) config/run/python_version.py

server: python
	$(BOOTSTRAP) server

development: python
	$(BOOTSTRAP) server dev

tests-need: python
	$(BOOTSTRAP) server dev pipeline --system
