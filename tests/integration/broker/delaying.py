"""Delayed messages for tests, and the delivery of those that are due."""

from __future__ import annotations

from typing import Any

from broker.core.position import Position
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    ProducerProbe,
)

BY_HAND: dict[str, Any] = {"wheel_enabled": False}


async def delayed(producer: ProducerProbe, clock: ManualClock, *delays_ms: int) -> list[Position]:
    """Send one message for each delay (0 = none) and wait for the receipts."""
    before = len(producer.receipts)
    for delay_ms in delays_ms:
        producer.send(deliver_at_ms=clock.now_ms() + delay_ms if delay_ms else 0)
    await producer.has_receipts(before + len(delays_ms))
    return [Position(each.ledger_id, each.entry_id) for each in producer.receipts[before:]]


def run_due(run: BrokerRun) -> int:
    return run.broker.deadlines.run_due()
