"""Roll up the points of charts, and remove old points and old rows of delivery stories.

A delivery story records the deliveries and acks of one subscription.
"""

from __future__ import annotations

import logging
import time

from celery import shared_task

from broker.conf import broker_settings
from broker.storage.history import roll_up as store
from broker.storage.history import stories

__all__ = ["expire_stories", "roll_up_history"]

logger = logging.getLogger(__name__)

_BUDGET_S = 1.0


@shared_task(name="broker.upkeep.tasks.roll_up_history")
def roll_up_history() -> None:
    """Roll up the points of complete time buckets, then remove old points. Safe to run twice or late."""
    now_ms = time.time_ns() // 1_000_000
    store.roll_up(now_ms, budget_s=_BUDGET_S)
    expired = store.expire(now_ms, kept_ms=broker_settings().history_kept_ms, budget_s=_BUDGET_S)
    if expired:
        logger.debug("%s old points removed", expired)


@shared_task(name="broker.upkeep.tasks.expire_stories")
def expire_stories() -> None:
    """Remove expired rows of delivery stories, and then the oldest rows beyond VELA_DELIVERY_STORY_ROWS."""
    now_ms = time.time_ns() // 1_000_000
    most_rows = broker_settings().delivery_story_rows
    gone = stories.expire(now_ms, most_rows=most_rows, budget_s=_BUDGET_S)
    if gone:
        logger.debug("%s old rows of delivery stories removed", gone)
