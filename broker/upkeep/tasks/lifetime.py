"""Ask the broker to trim and expire messages and to drop segments, which are tables of entries."""

from __future__ import annotations

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["lifetime"]


@shared_task(name="broker.upkeep.tasks.lifetime")
def lifetime() -> None:
    """Ask the broker to look at the topics and segments. Safe to repeat."""
    sweep.lifetime()
