"""Ask the broker to enforce policies: quotas, compaction, and the removal of unused subscriptions and topics."""

from __future__ import annotations

from celery import shared_task

from broker.storage.log import sweep

__all__ = ["check_policies"]


@shared_task(name="broker.upkeep.tasks.check_policies")
def check_policies() -> None:
    """Ask the broker to enforce the policies of its topics. Safe to repeat."""
    sweep.policies()
