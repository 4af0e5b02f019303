"""Fixtures of the binary door's tests."""

from __future__ import annotations

import pytest

from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import WireClient


@pytest.fixture
async def broker() -> FakeBroker:
    """A broker in memory."""
    return FakeBroker()


@pytest.fixture
async def client(broker: FakeBroker) -> WireClient:
    """A client that is connected to `broker`."""
    return WireClient(broker)
