"""Tasks for runs. A run is one execution of a Spark job on a topic."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down

from broker.conf import broker_settings
from broker.core.counted import counted
from broker.storage.pipeline import runs
from broker.upkeep.pipeline.worker import SILENT_S, run_waiting, stop_running

__all__ = ["check_pipeline", "run_pipeline"]

logger = logging.getLogger(__name__)


@shared_task(name="broker.upkeep.tasks.run_pipeline")
def run_pipeline() -> int | None:
    """Carry out the run that has waited longest, and return the run's id. Return None if no run can begin."""
    return run_waiting()


@shared_task(name="broker.upkeep.tasks.check_pipeline")
def check_pipeline() -> None:
    """Request due runs, mark the runs of dead workers as failed, and delete old rows. Safe to run twice or late."""
    if ended := runs.end_silent(SILENT_S):
        logger.warning(
            "%s failed: no worker reported progress", counted(ended, "pipeline run", "pipeline runs")
        )
    runs.request_due()
    settings = broker_settings()
    if settings.offload_url:
        runs.request_offloads()
    if settings.pipeline_log_days:
        runs.trim(settings.pipeline_log_days)
    runs.trim_insights(time.time_ns() // 1_000_000 - settings.history_kept_ms[3600])


@worker_shutting_down.connect
def _stop(**_: Any) -> None:
    stop_running()
