"""Timers that run only when the test says so, for a client of a whole Vela."""

from __future__ import annotations

import pytest

from tests.support.manual_timers import ManualTimers
from vela.aio.client import Client


@pytest.fixture
def timers(relayed: Client) -> ManualTimers:
    """The timers for acks, negative acks and ack timeouts of `relayed`."""
    manual = ManualTimers()
    relayed.make_timers = lambda: manual
    return manual
