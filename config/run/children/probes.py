"""Whether a child serves: asked while Vela starts."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path

__all__ = ["answers_ready", "file_exists"]


def answers_ready(host: str, port: int) -> Callable[[], bool]:
    """Return a probe that is true once GET /readyz answers 200."""

    def probe() -> bool:
        connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=2)
        try:
            connection.request("GET", "/readyz", headers={"Host": f"{host}:{port}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return probe


def file_exists(path: Path) -> Callable[[], bool]:
    """Return a probe that is true once the child has made this file (config.celery does when it is up)."""
    return path.exists
