"""The processes that Vela consists of, besides PostgreSQL."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from broker import service_manager
from config.environment import PROJECT_DIR
from config.run.children.child import Child
from config.run.children.probes import answers_ready, file_exists
from config.run.options import Options

__all__ = ["child_environment", "stages"]

MANAGE = [sys.executable, str(PROJECT_DIR / "manage.py")]
CELERY = [sys.executable, "-m", "config.run.celery_part"]


def child_environment(options: Options, database_url: str) -> dict[str, str]:
    """Return the environment of every child. The settings are resolved here once, so that all children agree."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": database_url,
        "VELA_DATA_DIR": str(options.data_dir),
        "VELA_OFFLOAD_URL": os.environ.get("VELA_OFFLOAD_URL")
        or (options.data_dir.resolve() / "offload").as_uri(),
        "VELA_ADVERTISED_URL": options.advertised_url,
        "VELA_ADVERTISED_TLS_URL": options.advertised_tls_url,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT_DIR), os.environ.get("PYTHONPATH", "")])),
        "PYTHONUNBUFFERED": "1",
    }


def stages(options: Options, environment: Mapping[str, str]) -> list[list[Child]]:
    """Return the children in the order in which they stop: first those that send work, then the broker that does it."""
    folder = options.data_dir
    ready = folder / "ready"
    ready.mkdir(exist_ok=True)

    # Only the supervisor may report to systemd, so its children do not get the socket.
    own = {name: text for name, text in environment.items() if name != service_manager.SOCKET_VARIABLE}

    def celery(name: str, *parts: str) -> Child:
        file = ready / name
        file.unlink(missing_ok=True)
        return child(name, [*CELERY, *parts], file_exists(file), ready_file=file)

    def child(
        name: str,
        command: list[str],
        is_up: Callable[[], bool],
        *,
        ready_file: Path | None = None,
    ) -> Child:
        extra = {"VELA_READY_FILE": str(ready_file)} if ready_file else {}
        return Child(
            name=name,
            command=command,
            is_up=is_up,
            environment=own | extra,
            log=folder / "log" / f"{name}.log",
        )

    senders = [
        celery("beat", "beat"),
        celery("worker-tick", "tick"),
        celery("worker", "work", "pipeline"),  # Spark runs in processes that the worker starts
        child(
            "console",
            [*MANAGE, "runconsole"],
            answers_ready(options.local_host, *options.console_probe),
        ),
    ]
    broker = child("broker", [*MANAGE, "runbroker"], answers_ready(options.local_host, *options.broker_probe))
    return [senders, [broker]]
