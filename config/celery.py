"""Celery runs the periodic work and the pipeline's jobs.

Its processes are `celery -A config worker -Q tick -P solo`, `… -Q work -P threads`, `… -Q pipeline -P solo` and
`celery -A config beat`.
"""

from __future__ import annotations

import os
from logging.config import dictConfig
from typing import Any

from celery import Celery
from celery.signals import beat_init, import_modules, worker_ready

from broker import service_manager
from config.celery_transport import broker_url
from config.environment import project_settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# Celery's fixup for Django would load every Django app in each process and close Django's connections around each task.
# The tasks only read Django's settings, send mail and use psycopg, so they do not need it. Without the fixup, the start
# of a process takes a third less work.
app = Celery("vela", fixups=[])
app.conf.update(
    broker_url=broker_url(project_settings()),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # wait for as long as PostgreSQL takes to restart
    task_ignore_result=True,
    task_default_queue="work",
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,  # needs fan-out, which queues in tables do not have
    worker_send_task_events=False,
    worker_hijack_root_logger=False,  # workers log as Django's LOGGING says, like the other processes
    beat_scheduler="config.beat_scheduler:Scheduler",
    timezone="UTC",
)
app.autodiscover_tasks(["broker.upkeep"])


@app.on_after_finalize.connect
def _schedule(sender: Celery, **_: Any) -> None:
    """Set beat's schedule. The import is inside the function, because the imported module needs Django's settings."""
    from broker.upkeep.tasks.schedule import beat_schedule

    sender.conf.beat_schedule = beat_schedule()


@import_modules.connect(sender=app)
def _configure_logging(**_: Any) -> None:
    """Log as Django's setting LOGGING says."""
    from django.conf import settings

    dictConfig(settings.LOGGING)


@worker_ready.connect
@beat_init.connect
def _tell_supervisor(**_: Any) -> None:
    """Tell systemd that this process is ready, and touch VELA_READY_FILE, for which `make run` waits."""
    service_manager.tell(service_manager.READY)
    if path := project_settings().ready_file:
        path.touch()
