"""Run one of Celery's processes: `python -m config.run.celery_part tick|work|pipeline|beat`.

`make run` starts `work pipeline`: one process for both queues, with one more thread for each job that may run.

These processes do the same as `celery -A config worker -Q tick -P solo`, `… worker -Q work -P threads -c 2`,
`… worker -Q pipeline -P solo` and `… beat`. They start a third of a second sooner, because Celery's command line
imports a shell with completion.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from celery import Celery, platforms
from celery.utils.nodenames import default_nodename, host_format

from broker.conf import EXIT_SETTING_INVALID, broker_settings
from config.environment import SettingInvalid, project_settings

__all__ = ["main", "pool_of"]

WORKERS: dict[str, dict[str, Any]] = {
    "tick": {"pool": "solo"},  # a separate worker, because behind other work the tick would be late
    "work": {"pool": "threads", "concurrency": 2},
    "pipeline": {"pool": "solo"},  # one job at a time; containers run it separately (docker/roles.py)
}


def main(*parts: str) -> int:
    """Run one part, or a worker of several queues, until SIGTERM. Return the exit code."""
    try:
        from config.celery import app  # reads the settings

        _require_usable_broker(app)
        return _run(app, parts)
    except SettingInvalid as error:
        sys.stderr.write(f"vela: {error}\n")
        return EXIT_SETTING_INVALID
    finally:
        gc.freeze()  # skips the collection at exit: 0.02 s of CPU instead of 0.3 s


def _require_usable_broker(app: Celery) -> None:
    """Raise SettingInvalid if VELA_CELERY_BROKER_URL names a transport that Celery cannot load."""
    scheme = app.conf.broker_url.partition(":")[0]
    try:
        _ = app.connection_for_write().transport
    except (
        KeyError,
        ImportError,
        AttributeError,
    ) as error:  # AttributeError: a library is missing
        raise SettingInvalid(
            f"VELA_CELERY_BROKER_URL begins with {scheme!r}, which Celery cannot use ({error}): install the"
            " library for it, or leave the setting empty for PostgreSQL"
        ) from None


def _run(app: Celery, parts: tuple[str, ...]) -> int:
    # Celery renames its processes if setproctitle is installed. Prevent that, so that `ps` shows all of Vela's
    # processes alike.
    platforms._setproctitle = None  # noqa: SLF001
    app.set_current()
    app.set_default()
    if parts == ("beat",):
        schedule = project_settings().data_dir / "celerybeat-schedule"
        app.Beat(schedule=str(schedule), loglevel="WARNING", quiet=True).run()
        return 0
    worker = app.Worker(
        hostname=host_format(default_nodename(f"{parts[0]}@%h")),
        queues=list(parts),
        loglevel="WARNING",
        quiet=True,
        # Workers talk to each other through fan-out, which queues in tables do not have.
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        **pool_of(parts, jobs=broker_settings().pipeline_runs),
    )
    worker.start()
    return int(worker.exitcode or 0)


def pool_of(parts: tuple[str, ...], *, jobs: int) -> dict[str, Any]:
    """Return the pool of a worker. A job occupies a thread while it runs, so each of `jobs` adds a thread."""
    pool = dict(WORKERS[parts[0]])
    if "pipeline" in parts[1:]:
        pool["concurrency"] += jobs
    return pool


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
