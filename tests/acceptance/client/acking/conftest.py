"""Clients of a whole Vela."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.vela import VelaProcess
from vela.aio.client import Client


@pytest_asyncio.fixture
async def client(service_url: str) -> AsyncIterator[Client]:
    made = Client(service_url, initial_backoff_ms=20)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def tcp_client(shared_vela: VelaProcess) -> AsyncIterator[Client]:
    """For what takes seconds and does not depend on the transport."""
    made = Client(shared_vela.pulsar_url, initial_backoff_ms=20)
    yield made
    await made.close()
