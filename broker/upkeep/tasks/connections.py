"""Keep database connections open between tasks, in beat and in the processes that run tasks."""

from __future__ import annotations

from celery.signals import beat_init, worker_process_init, worker_ready

from broker.storage.task_connection import keep_connections

__all__ = ["keep"]


@worker_ready.connect  # for a worker that runs tasks in its own process or threads
@worker_process_init.connect  # for a worker that runs them in the processes of a pool
@beat_init.connect
def keep(**_: object) -> None:
    """Make this process keep its connections from now on.

    Do not call this before the pool forks a process, or that process could inherit an open connection.
    """
    keep_connections()
