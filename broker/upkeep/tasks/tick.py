"""Find due work in PostgreSQL and notify the broker that owns the topics."""

from __future__ import annotations

import time

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["tick"]


@shared_task(name="broker.upkeep.tasks.tick")
def tick() -> int:
    """Tell the broker which subscriptions have overdue deliveries, and which topics have delayed messages that are due.

    Returns how many subscriptions and topics need work. Safe to repeat.
    """
    return sweep.tick(time.time_ns() // 1_000_000)
