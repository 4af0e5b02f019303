"""Beat's sign of life, for `manage.py healthcheck beat`: written whenever beat sends the tick."""

from __future__ import annotations

import logging

import psycopg
from celery.signals import after_task_publish

from broker.storage.log import sweep

__all__ = ["beat_sent"]

log = logging.getLogger(__name__)


@after_task_publish.connect(sender="broker.upkeep.tasks.tick")
def beat_sent(**_: object) -> None:
    """Only beat publishes the tick."""
    try:
        sweep.beat()
    except psycopg.Error as error:
        log.warning("beat's sign of life was not written: %s", error)
