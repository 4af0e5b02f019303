"""A peer that stores all messages, and its client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.scripted_peer import ScriptedPeer
from tests.support.storing_peer import StoringPeer
from vela.aio import Client


@pytest.fixture
async def store() -> AsyncIterator[StoringPeer]:
    async with ScriptedPeer.started() as peer:
        yield StoringPeer(peer)


@pytest.fixture
async def client(store: StoringPeer) -> AsyncIterator[Client]:
    async with Client(store.peer.url, initial_backoff_ms=1, operation_timeout_seconds=5) as client:
        yield client
