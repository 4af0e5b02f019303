"""The tick: find what is due in PostgreSQL and name it to the owner."""

from __future__ import annotations

import time

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["tick"]


@shared_task(name="broker.upkeep.tasks.tick")
def tick() -> int:
    """Name subscriptions with overdue deliveries and topics with due delayed messages; return how many.

    The owner redelivers and releases: `broker.upkeep.tick` takes the notification, `broker.deadlines` runs what is due.
    Running this twice, late or never costs at most a tick of delay.
    """
    return sweep.tick(time.time_ns() // 1_000_000)
