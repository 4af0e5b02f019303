"""Fixtures for tests of consumers against a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.client.consumer.desk import Desk, desk_running
from tests.support.manual_timers import ManualTimers


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    """A scripted broker and its client."""
    async with desk_running() as running:
        yield running


@pytest.fixture
def timers(desk: Desk) -> ManualTimers:
    """The client's timers, which run only when the test says so."""
    manual = ManualTimers()
    desk.client.make_timers = lambda: manual
    return manual
