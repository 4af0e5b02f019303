"""Evaluate alert rules, send notifications, and delete old rows."""

from __future__ import annotations

import time

from celery import shared_task

from broker.storage import alerts as store
from broker.upkeep.alerts.evaluate import evaluate
from broker.upkeep.alerts.send import send_due

__all__ = ["check_alerts", "send_alerts"]

_KEPT_MS = 30 * 24 * 3600 * 1000
_SEND_BUDGET_S = 5.0


@shared_task(name="broker.upkeep.tasks.check_alerts")
def check_alerts() -> None:
    """Evaluate the rules, then delete old notifications and old cleared alerts. Safe to repeat."""
    now_ms = time.time_ns() // 1_000_000
    evaluate(now_ms)
    store.trim(now_ms - _KEPT_MS)


@shared_task(name="broker.upkeep.tasks.send_alerts")
def send_alerts() -> None:
    """Send the notifications that are due.

    Runs may overlap, because a run claims each notification before sending it.
    """
    send_due(budget_s=_SEND_BUDGET_S)
