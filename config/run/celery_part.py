"""One of Celery's processes without its command line: `python -m config.run.celery_part tick|work|pipeline|beat`.

The same as `celery -A config worker -Q tick -P solo`, `… worker -Q work -P threads -c 2` and `… beat`, for a third of
a second less: Celery's command line brings along a shell with completion that a supervised process has no use for.
"""

from __future__ import annotations

import sys
from typing import Any

from celery.utils.nodenames import default_nodename, host_format

from config.celery import app
from config.environment import Environment

__all__ = ["main"]

WORKERS: dict[str, dict[str, Any]] = {
    "tick": {
        "pool": "solo"
    },  # the tick has a worker of its own: behind other work it would come late (design 7)
    "work": {"pool": "threads", "concurrency": 2},
    "pipeline": {"pool": "solo"},  # Spark's jobs, one at a time; only containers start it (docker/roles.py)
}


def main(part: str) -> int:
    """Run one part until SIGTERM; its exit code."""
    app.set_current()
    app.set_default()
    if part == "beat":
        schedule = Environment().data_dir() / "celerybeat-schedule"
        app.Beat(schedule=str(schedule), loglevel="WARNING", quiet=True).run()
        return 0
    worker = app.Worker(
        hostname=host_format(default_nodename(f"{part}@%h")),
        queues=[part],
        loglevel="WARNING",
        quiet=True,
        # Between workers these need fan-out, which a table does not have.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        **WORKERS[part],
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
