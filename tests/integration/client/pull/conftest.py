"""Fixtures of the pull consumer's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.scripted_http import PullPeer, ScriptedHttp


@pytest.fixture
def peer() -> PullPeer:
    """What answers the pulls."""
    return PullPeer()


@pytest.fixture
async def http(peer: PullPeer) -> AsyncIterator[ScriptedHttp]:
    """Its door."""
    server = ScriptedHttp(peer)
    async with server.running():
        yield server
