"""Probes that find out whether a child serves, while Vela starts."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path

from broker.listening.probe import ask_ready

__all__ = ["answers_ready", "file_exists"]


def answers_ready(host: str, port: int, has_tls: bool) -> Callable[[], bool]:
    """Return a probe that is true once GET /readyz answers 200."""

    def probe() -> bool:
        try:
            return ask_ready(host, port, has_tls=has_tls)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    return probe


def file_exists(path: Path) -> Callable[[], bool]:
    """Return a probe that is true once this file exists. config.celery makes it when the process is up."""
    return path.exists
