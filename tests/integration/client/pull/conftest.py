"""Fixtures of the pull consumer's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.scripted_http import PullPeer, ScriptedHttp


@pytest.fixture
def peer() -> PullPeer:
    """The peer that answers the pulls."""
    return PullPeer()


@pytest.fixture
async def http(peer: PullPeer) -> AsyncIterator[ScriptedHttp]:
    """The HTTP server in front of `peer`."""
    server = ScriptedHttp(peer)
    async with server.running():
        yield server
