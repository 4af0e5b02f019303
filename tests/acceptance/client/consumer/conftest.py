"""Apache's client, to publish with."""

from __future__ import annotations

from collections.abc import Iterator

import pulsar
import pytest

from tests.support.vela import VelaProcess


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()
