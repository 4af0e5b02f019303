"""Record a heartbeat whenever Celery beat sends the periodic task `tick`."""

from __future__ import annotations

import logging

import psycopg
from celery.signals import after_task_publish

from broker.storage.log import sweep

__all__ = ["beat_sent"]

logger = logging.getLogger(__name__)


@after_task_publish.connect(sender="broker.upkeep.tasks.tick")
def beat_sent(**_: object) -> None:
    """Record that Celery beat sent a tick."""
    try:
        sweep.beat()
    except psycopg.Error as error:
        logger.warning("beat's heartbeat was not written; the next tick writes it: %s", error)
