"""Ask the broker for a round through the policies: quotas, compaction, unused subscriptions and topics."""

from __future__ import annotations

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["check_policies"]


@shared_task(name="broker.upkeep.tasks.check_policies")
def check_policies() -> None:
    """Ask the broker for a round. Safe to repeat."""
    sweep.policies()
