"""Fixtures of the tests that run a broker in their own loop: a database migrated once and emptied before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.broker_harness import BrokerRun, empty, running


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
