"""The points of charts: roll them up, and remove old ones."""

from __future__ import annotations

import logging
import time

from celery import shared_task

from broker.conf import broker_settings
from broker.storage.history import roll_up as store

__all__ = ["roll_up_history"]

logger = logging.getLogger(__name__)

_BUDGET_S = 1.0  # of either half; what is left is done in the next run


@shared_task(name="broker.upkeep.tasks.roll_up_history")
def roll_up_history() -> None:
    """Roll up the buckets that are complete, then remove old points.

    Safe to run twice or late. Points that are not rolled up do not expire.
    """
    now_ms = time.time_ns() // 1_000_000
    store.roll_up(now_ms, budget_s=_BUDGET_S)
    expired = store.expire(now_ms, kept_ms=broker_settings().history_kept_ms, budget_s=_BUDGET_S)
    if expired:
        logger.debug("%s old points removed", expired)
