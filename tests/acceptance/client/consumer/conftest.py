"""Apache's client, to publish with, and an account of a consumer's permits."""

from __future__ import annotations

from collections.abc import Iterator

import pulsar
import pytest

from tests.acceptance.client.sent_frames import PermitAccount
from tests.support.frame_relay import FrameRelay
from tests.support.vela import VelaProcess


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest.fixture
def permits(relay: FrameRelay) -> PermitAccount:
    """The permits of the consumer behind `relay`."""
    return PermitAccount(relay)
