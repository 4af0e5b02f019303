"""Fixtures for tests that run a broker in their own loop, over a database that is emptied before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.broker_harness import BrokerRun, empty, running


@pytest.fixture
def broker_url(migrated_url: str) -> str:
    """The URL of a database as the migrations leave it, without a proxy in between."""
    empty(migrated_url)
    return migrated_url


@pytest.fixture
async def run(broker_url: str) -> AsyncIterator[BrokerRun]:
    """A started broker."""
    async with running(broker_url) as started:
        yield started
