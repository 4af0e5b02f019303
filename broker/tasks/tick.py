"""The tick: everything that has to happen because time passed starts here."""

from __future__ import annotations

from celery import shared_task

__all__ = ["tick"]


@shared_task(name="broker.tasks.tick")
def tick() -> None:
    """One beat."""
