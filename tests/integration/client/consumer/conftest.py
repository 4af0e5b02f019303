"""Fixtures of the client's tests against a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.integration.client.consumer.desk import Desk, desk_running


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    """A scripted broker and a client of it."""
    async with desk_running() as running:
        yield running
