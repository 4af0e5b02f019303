"""Keep database connections open between tasks, in beat and in the processes that run tasks."""

from __future__ import annotations

from celery.signals import beat_init, worker_process_init, worker_ready

from broker.storage.task_connection import keep_connections

__all__ = ["keep"]


@worker_ready.connect  # Workers that run tasks in their own process or threads
@worker_process_init.connect  # Workers that run tasks in a pool of processes
@beat_init.connect
def keep(**_: object) -> None:
    """Keep the database connections of this process open between tasks.

    A process that is forked after this call could inherit an open connection.
    """
    keep_connections()
