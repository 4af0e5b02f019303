"""Fixtures for tests of the client against a scripted peer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.scripted_peer import ScriptedPeer


@pytest.fixture(params=[False, True], ids=["tcp", "websocket"])
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedPeer]:
    """A scripted peer over TCP, then one over WebSocket."""
    async with ScriptedPeer.started(websocket=request.param) as started:
        yield started


@pytest.fixture
async def tcp_peer() -> AsyncIterator[ScriptedPeer]:
    """A scripted peer over TCP."""
    async with ScriptedPeer.started() as started:
        yield started
