"""Ask the broker to trim and expire messages, and to drop unneeded tables."""

from __future__ import annotations

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["lifetime"]


@shared_task(name="broker.upkeep.tasks.lifetime")
def lifetime() -> None:
    """Ask the broker to trim and expire messages, and to drop unneeded tables. Safe to repeat."""
    sweep.lifetime()
