"""Keep database connections open in Celery beat and in the processes that run tasks."""

from __future__ import annotations

from celery.signals import beat_init, worker_process_init, worker_ready

from broker.storage.task_connection import keep_connections

__all__ = ["keep"]


@worker_ready.connect  # For workers with a pool of threads
@worker_process_init.connect  # For each process in a worker's pool
@beat_init.connect
def keep(**_: object) -> None:
    """Keep the database connections of this process open between tasks.

    The parent of a process pool calls this too. That is harmless: the parent runs no tasks, so it has no connection
    that its children could share.
    """
    keep_connections()
