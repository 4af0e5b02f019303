"""Fixtures of all tests. Servers start when a test first needs them, so a run of tests/unit starts none."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from config.environment import database_parts
from config.run.postgres.server import PostgresServer
from tests.matrix.marks import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.support.postgres import fresh_database, migrate, postgres_15, started_postgres
from tests.support.vela import VelaProcess, made_data, started_vela

# `make test` tries the same examples each time; `make soak` tries new ones. No example has a deadline, because any
# example may take long on a busy machine.
settings.register_profile(
    "vela",
    derandomize="VELA_SOAK_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("vela")

# A Spark session in a test lives for seconds: Java's second compiler and its parallel collector would cost more than
# they save.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ["SPARK_LAUNCHER_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]

_said: set[str] = set()


def pytest_configure() -> None:
    """Restore the handler of SIGINT: tests send it, and a shell without job control makes background jobs ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Freeze the modules and the thousands of tests: they live until the end, so garbage collection can skip them."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which old PostgreSQL the tests ran on."""
    for line in sorted(_said):
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass the lines for the summary from a worker of a parallel run to the main process."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["said"] = sorted(_said)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist=loadfile, give a folder whose files share a slow fixture to one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.distribution import FilesAndFolders

    return FilesAndFolders(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the lines for the summary from a worker that has ended."""
    _said.update(getattr(node, "workeroutput", {}).get("said", ()))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL 18 without fsync, shared by the session."""
    with started_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer) -> Iterator[str]:
    """The name of a database with Vela's tables. Tests copy it, because the migrations take seconds."""
    name = "migrated"
    with fresh_database(postgres.url, name) as url:
        migrate(url)
        yield name


@pytest.fixture
def database_url(postgres: PostgresServer, migrated: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database with Vela's tables, for one test."""
    name = f"test_{abs(hash(request.node.nodeid)):x}"
    with fresh_database(postgres.url, name, template=migrated) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_url(postgres: PostgresServer, migrated: str) -> Iterator[str]:
    """The database of the tests that run a broker in their own event loop. They use it one after the other."""
    with fresh_database(postgres.url, "test_broker", template=migrated) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_15_url() -> Iterator[str]:
    """A real server of the oldest version that Vela supports."""
    with postgres_15() as (url, what):
        _said.add(f"oldest supported PostgreSQL: tested on {what}")
        yield url


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL 18 configured as `make run` configures it, for tests that kill it."""
    with started_postgres(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: PostgresServer) -> None:
    """Put pytest-django's database on the session's server. A pool's open connections would prevent dropping it."""
    from django.conf import settings
    from django.db import connections

    parts = database_parts(postgres.url)
    for alias in settings.DATABASES:
        for each in (settings.DATABASES[alias], connections[alias].settings_dict):
            each.update(parts)
            each["OPTIONS"].pop("pool", None)


@pytest.fixture(scope="session")
def vela_data() -> Iterator[Path]:
    """A prepared data folder. Each Vela of this session gets a copy."""
    with made_data() as folder:
        yield folder


@pytest.fixture(scope="module")
def vela(vela_data: Path) -> Iterator[VelaProcess]:
    """A whole Vela for one module, started as by `make run` on existing data. Tests may stop and kill it."""
    with started_vela(data=vela_data) as process:
        yield process
