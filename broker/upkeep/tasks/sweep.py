"""Expire plans, remove old acts, and remove the rows that a dead broker left behind.

An act is a change that an operator, a client or a policy makes. The plan of an act describes the effect beforehand.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from celery import shared_task

from broker.conf import broker_settings
from broker.storage.acts.acts import SECOND_PERSON_S
from broker.storage.log import sweep

__all__ = ["sweep_acts", "sweep_dead_sessions"]

logger = logging.getLogger(__name__)

_MOST_PRUNINGS: Final = 50


@shared_task(name="broker.upkeep.tasks.sweep_dead_sessions")
def sweep_dead_sessions() -> None:
    """Remove the sessions and pending acks of a dead broker."""
    swept = sweep.dead_sessions(time.time_ns() // 1_000_000, silent_s=sweep.SILENT_S)
    if any(swept):
        logger.info(
            "swept %s consumers, %s producers and %s deliveries of a broker that is gone",
            swept.consumers,
            swept.producers,
            swept.pending,
        )


@shared_task(name="broker.upkeep.tasks.sweep_acts")
def sweep_acts() -> None:
    """Expire plans that nobody applied in time, and remove old finished acts. Safe to repeat."""
    settings = broker_settings()
    expired = sweep.expire_plans(settings.plan_expiry_s, second_person_s=SECOND_PERSON_S)
    trimmed = sweep.trim_acts(settings.act_log_days) if settings.act_log_days else 0
    if settings.act_log_client_rows:
        for _ in range(_MOST_PRUNINGS):
            pruned = sweep.trim_client_acts(settings.act_log_client_rows)
            trimmed += pruned
            if pruned < sweep.TRIMMED_AT_ONCE:
                break
    if expired or trimmed:
        logger.info("acts: %s plans expired, %s old acts removed", expired, trimmed)
