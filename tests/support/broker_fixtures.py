"""Fixtures of the tests that run a broker in their own loop: a database migrated once and emptied before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from config.run.postgres.server import PostgresServer
from tests.support.broker_harness import BrokerRun, empty, migrated_database, running


@pytest.fixture(scope="session")
def migrated_url(postgres: PostgresServer) -> Iterator[str]:
    """The database that all these tests use, one after the other."""
    with migrated_database(postgres.url) as url:
        yield url


@pytest.fixture
def broker_url(migrated_url: str) -> str:
    """A database as the migrations leave it; no proxy in between."""
    empty(migrated_url)
    return migrated_url


@pytest.fixture
async def run(broker_url: str) -> AsyncIterator[BrokerRun]:
    """A broker that serves."""
    async with running(broker_url) as started:
        yield started
