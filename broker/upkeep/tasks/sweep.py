"""Sweeping up after processes that died without a word."""

from __future__ import annotations

import logging
import time

from celery import shared_task

from broker.conf import broker_settings
from broker.storage.log import sweep

__all__ = ["SILENT_S", "sweep_acts", "sweep_dead_sessions"]

log = logging.getLogger(__name__)

SILENT_S = 15  # a lost host is noticed within 15 s (design 6)


@shared_task(name="broker.upkeep.tasks.sweep_dead_sessions")
def sweep_dead_sessions() -> None:
    """Remove the sessions and pending acks of a broker that is gone; the console then says so."""
    swept = sweep.dead_sessions(time.time_ns() // 1_000_000, silent_s=SILENT_S)
    if any(swept):
        log.info(
            "swept %s consumers, %s producers and %s deliveries of a broker that is gone",
            swept.consumers,
            swept.producers,
            swept.pending,
        )


@shared_task(name="broker.upkeep.tasks.sweep_acts")
def sweep_acts() -> None:
    """Plans that nobody applied expire; the log of acts is kept for as long as its setting says."""
    settings = broker_settings()
    expired = sweep.expire_plans(settings.plan_expiry_s)
    trimmed = sweep.trim_acts(settings.act_log_days) if settings.act_log_days else 0
    if expired or trimmed:
        log.info("acts: %s plans expired, %s old acts removed", expired, trimmed)
