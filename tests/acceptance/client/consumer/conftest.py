"""Clients of a whole Vela: this one, and Apache's to publish with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pulsar
import pytest
import pytest_asyncio

from tests.support.vela import VelaProcess
from vela.aio.client import Client


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest_asyncio.fixture
async def client(service_url: str) -> AsyncIterator[Client]:
    made = Client(service_url, initial_backoff_ms=20)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def tcp_client(shared_vela: VelaProcess) -> AsyncIterator[Client]:
    """For what takes its time: the frames are the same over WebSocket."""
    made = Client(shared_vela.pulsar_url, initial_backoff_ms=20)
    yield made
    await made.close()
