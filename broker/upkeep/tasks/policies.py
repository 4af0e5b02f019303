"""Backlog quotas, expired subscriptions, inactive topics: beat says when, the owner does it."""

from __future__ import annotations

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["check_policies"]


@shared_task(name="broker.upkeep.tasks.check_policies")
def check_policies() -> None:
    """Ask the owner for a round. Running it twice, late or never costs at most a round of delay."""
    sweep.policies()
