"""The tick: everything that has to happen because time passed starts here (design 7)."""

from __future__ import annotations

import time

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["tick"]


@shared_task(name="broker.upkeep.tasks.tick")
def tick() -> int:
    """One beat: overdue deliveries and delayed messages are the owner's to see to, it is only told that it is time.

    Returns how many subscriptions and topics have some. Running it twice, late or never costs at most a tick of delay.
    """
    return sweep.tick(time.time_ns() // 1_000_000)
