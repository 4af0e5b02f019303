"""Data whose time is over: beat says that it is time, the owner decides what goes (design 7)."""

from __future__ import annotations

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["lifetime"]


@shared_task(name="broker.upkeep.tasks.lifetime")
def lifetime() -> None:
    """Notify the owner, which looks at every topic and at the segments. Running it twice costs one more look."""
    sweep.lifetime()
