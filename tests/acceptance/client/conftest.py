"""The client against a whole Vela, over TCP and over WebSocket."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.frame_relay import FrameRelay, frame_relay
from tests.support.vela import VelaProcess
from vela.aio.client import Client

_numbers = itertools.count(1)


@pytest.fixture(params=["tcp", "websocket"])
def transport(request: pytest.FixtureRequest) -> str:
    """The client's transport. Each test that uses this fixture, directly or through another one, runs over both."""
    return str(request.param)


@pytest.fixture
def service_url(transport: str, shared_vela: VelaProcess) -> str:
    """The service URL for the client."""
    return shared_vela.pulsar_url if transport == "tcp" else shared_vela.websocket_url


@pytest_asyncio.fixture
async def relay(transport: str, shared_vela: VelaProcess) -> AsyncIterator[FrameRelay]:
    """A relay between client and broker. It can record, change, delay and drop frames.

    The client connects to its `service_url`.
    """
    async with frame_relay(shared_vela, transport) as started:
        yield started


@pytest_asyncio.fixture
async def client(service_url: str) -> AsyncIterator[Client]:
    """A client that reconnects quickly."""
    made = Client(service_url, initial_backoff_ms=20)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def tcp_client(shared_vela: VelaProcess) -> AsyncIterator[Client]:
    """A client over TCP alone, for tests that take seconds and do not depend on the transport."""
    made = Client(shared_vela.pulsar_url, initial_backoff_ms=20)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def relayed(relay: FrameRelay) -> AsyncIterator[Client]:
    """A client whose frames all go through `relay`."""
    made = Client(relay.service_url, initial_backoff_ms=20)
    yield made
    await made.close()


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test uses."""
    return f"persistent://public/default/client-{next(_numbers)}"
