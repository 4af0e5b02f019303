"""The client against a whole Vela, over TCP and over WebSocket."""

from __future__ import annotations

import itertools

import pytest

from tests.support.vela import VelaProcess

_numbers = itertools.count(1)


@pytest.fixture(params=["tcp", "websocket"])
def service_url(request: pytest.FixtureRequest, shared_vela: VelaProcess) -> str:
    """What the client is given; each test that asks for it runs over both transports."""
    return shared_vela.pulsar_url if request.param == "tcp" else shared_vela.websocket_url


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"persistent://public/default/client-{next(_numbers)}"
