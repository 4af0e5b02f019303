# `make` lists the commands. It needs Python 3.11 or newer and installs everything else.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

# If Python may not write bytecode beside the sources, Vela and the tests keep the bytecode in .venv. Otherwise each of
# their processes would compile everything again, and take twice as long to start.
ifdef PYTHONDONTWRITEBYTECODE
BYTECODE := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/bytecode
endif

.DEFAULT_GOAL := help
.PHONY: help run test demo pictures chaos faults fuzz interop soak pipeline-soak matrix mutate bench bench-peers check docker-check format messages lock proto
.SILENT:

help: ## show the commands
	sed -n 's/^\([a-z-]*\):.*## /  make \1 \t/p' Makefile | expand -t 22

run: server ## start Vela: PostgreSQL, broker, console, worker, beat
	exec $(BYTECODE) $(RUN) -m config.run

test: development ## run all tests, WORKERS=2 files at a time; PYTEST="..." passes arguments to pytest
	$(RUN) -m config.run.test_tools
	$(BYTECODE) $(RUN) -m pytest --numprocesses=$(or $(WORKERS),2) --dist=loadfile --no-loadscope-reorder $(PYTEST)

demo: python ## publish and consume demo messages, so that a running Vela's console has something to show
	$(PYTHON) config/run/bootstrap.py demo
	exec $(RUN) -m config.run.demo

pictures: development ## take pictures of the console's pages for the docs; PICTURES="--into FOLDER" takes every page in four variants
	$(RUN) -m tests.pictures $(PICTURES)

chaos: development ## kill -9 every process N=10 times while MESSAGES=100000 pass; SEED=… repeats a run
	$(RUN) -m tests.chaos.run --kills $(or $(N),10) --messages $(or $(MESSAGES),100000) $(if $(SEED),--seed $(SEED))

faults: development ## start each fault of consumption and see whether the console names its cause
	VELA_FAULTS=1 $(RUN) -m pytest tests/faults $(PYTEST)

fuzz: development ## feed every parser INPUTS=1000000 generated inputs, and a Vela SENT=20000; SEED=… repeats a run
	$(RUN) -m tests.fuzz --inputs $(or $(INPUTS),1000000) $(if $(SEED),--seed $(SEED))
	$(RUN) -m tests.fuzz.started --inputs $(or $(SENT),20000) $(if $(SEED),--seed $(SEED))
	$(RUN) -m tests.fuzz.rest --seconds $(or $(LASTING),60) $(if $(SEED),--seed $(SEED))

interop: development ## ask clients and admin tools in Python, Go, Java and JavaScript the same questions; needs Go, Maven and npm
	$(RUN) -m tests.interop.run

soak: development ## run the random tests for longer: SEEDS=100 crashing brokers, EXAMPLES=2000 of each model
	VELA_SOAK_SEEDS=$(or $(SEEDS),100) $(RUN) -m pytest tests/concurrency/test_random_broker.py $(PYTEST)
	VELA_SOAK_EXAMPLES=$(or $(EXAMPLES),2000) $(RUN) -m pytest tests/model tests/unit/core $(PYTEST)
	$(RUN) -m tests.fuzz --inputs $(or $(INPUTS),1000000)
	$(RUN) -m tests.fuzz.started --inputs $(or $(SENT),20000)

pipeline-soak: development ## copy MESSAGES=1000000 on a Spark cluster with 6 kills, then kill each job KILLS=20 times; SEED=…
	$(RUN) -m tests.chaos.pipeline --messages $(or $(MESSAGES),1000000) $(if $(SEED),--seed $(SEED))
	$(RUN) -m tests.chaos.jobs --kills $(or $(KILLS),20) $(if $(SEED),--seed $(SEED)) $(JOBS)

matrix: development ## run the tests and show the rows of behaviour.md with their results; RESULTS=junit.xml reads earlier results
	$(RUN) -m tests.matrix $(RESULTS)

mutate: development ## break COUNT=4 core modules, chosen by SEED=…, for MINUTES=20, and see whether tests notice
	$(RUN) -m tests.mutation --count $(or $(COUNT),4) --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED)) $(MODULES)

check: development ## check format, lint, types, imports, migrations, templates
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m ruff check --quiet .
	$(RUN) -m mypy --no-error-summary .
	report=$$($(VENV)/bin/lint-imports --no-cache) || { echo "$$report"; exit 1; }
	$(RUN) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(RUN) manage.py check --deploy --fail-level WARNING
	report=$$($(VENV)/bin/djlint templates --check) || { echo "$$report"; exit 1; }
	$(VENV)/bin/djlint templates --lint --quiet

bench: development ## run the benchmarks: BENCH="--quick", BENCH="--only latency" (bench/METHODOLOGY.md)
	$(RUN) -m bench $(BENCH)

bench-peers: development ## give Pulsar and others the same work as Vela; needs Go, and Java with Maven; PEERS="--server nats"
	$(RUN) -m bench.peers $(PEERS)

format: development ## format the code
	$(RUN) -m ruff format --quiet .
	$(RUN) -m ruff check --fix --quiet .
	$(VENV)/bin/djlint templates --reformat --quiet || true

messages: development ## bring the catalogue of the console's Chinese texts in step with the source, and compile it
	$(RUN) -m config.run.messages

lock: development ## compile requirements/*.txt again; UV="--upgrade" passes arguments to uv
	$(RUN) -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(RUN) -m config.run.requirements $(UV)

proto: development ## compile the protobuf definitions
	$(RUN) -m grpc_tools.protoc -I . --python_out=. --mypy_out=quiet:. vela/wire/pb/vela_pulsar.proto

docker-check: python ## test the image and compose.yaml without a container engine (as root on Debian 12)
	$(PYTHON) -m docker.check $(STEPS)

.PHONY: python server development
python:
	$(PYTHON) config/run/python_version.py

server: python
	$(PYTHON) config/run/bootstrap.py server

development: python
	$(PYTHON) config/run/bootstrap.py dev
