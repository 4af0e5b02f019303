# `make` prints what there is. Needs Python 3.11 or newer; the rest it fetches itself.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help run test demo chaos soak matrix bench check docker-check format lock proto
.SILENT:

help: ## what there is
	sed -n 's/^\([a-z-]*\):.*## /  make \1 \t/p' Makefile | expand -t 22

run: server ## start Vela: PostgreSQL, broker, console, worker, beat
	exec $(RUN) -m config.run

test: development ## run all tests, WORKERS=2 files at a time; PYTEST="..." is handed on
	$(RUN) -m config.run.test_tools
	$(RUN) -m pytest --numprocesses=$(or $(WORKERS),2) --dist=loadfile --no-loadscope-reorder $(PYTEST)

demo: python ## give a running Vela's console something to show
	$(PYTHON) config/run/bootstrap.py demo
	exec $(RUN) -m config.run.demo

chaos: development ## kill -9 everything N=10 times each under MESSAGES=100000; SEED=… repeats a run
	$(RUN) -m tests.chaos.run --kills $(or $(N),10) --messages $(or $(MESSAGES),100000) $(if $(SEED),--seed $(SEED))

soak: development ## long form of the random tests: SEEDS=100 brokers that crash, EXAMPLES=2000 of each model
	VELA_SOAK_SEEDS=$(or $(SEEDS),100) $(RUN) -m pytest tests/concurrency/test_random_broker.py $(PYTEST)
	VELA_SOAK_EXAMPLES=$(or $(EXAMPLES),2000) $(RUN) -m pytest tests/model tests/unit/core $(PYTEST)

matrix: development ## rows of behaviour, their tests and results; RESULTS=junit.xml instead of running them
	$(RUN) -m tests.matrix $(RESULTS)

check: development ## format, lint, types, imports, migrations, templates
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m ruff check --quiet .
	$(RUN) -m mypy --no-error-summary .
	report=$$($(VENV)/bin/lint-imports --no-cache) || { echo "$$report"; exit 1; }
	$(RUN) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(RUN) manage.py check --deploy --fail-level WARNING
	$(VENV)/bin/djlint templates --check --quiet
	$(VENV)/bin/djlint templates --lint --quiet

bench: development ## measure it: BENCH="--quick", BENCH="--only latency" (bench/METHODOLOGY.md)
	$(RUN) -m bench $(BENCH)

format: development ## format the code
	$(RUN) -m ruff format --quiet .
	$(RUN) -m ruff check --fix --quiet .

lock: development ## compile requirements/*.txt again; UV="--upgrade" is handed on
	$(RUN) -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(RUN) -m config.run.lock $(UV)

proto: development ## compile the protobuf definitions
	$(RUN) -m grpc_tools.protoc -I . --python_out=. --mypy_out=quiet:. vela/wire/pb/vela_pulsar.proto

docker-check: python ## the image and compose.yaml, shown to work without a container engine (root on Debian 12)
	$(PYTHON) -m docker.check $(STEPS)

.PHONY: python server development
python:
	$(PYTHON) config/run/python_version.py

server: python
	$(PYTHON) config/run/bootstrap.py server

development: python
	$(PYTHON) config/run/bootstrap.py dev
