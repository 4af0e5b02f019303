"""The image's HEALTHCHECK, for whatever role this container has."""

from __future__ import annotations

import http.client
import os
import sys

from config.environment import PROJECT_DIR
from docker.roles import ROLE_FILE, SPARK_UI_PORTS

__all__ = ["main"]

_WITHOUT_A_PROBE = ("migrate", "pipeline-worker")  # healthy as long as they run; the engine sees them end


def main() -> int:
    """Check the container's role. Exit code 0 = healthy, 1 = not. Roles with a probe run `manage.py healthcheck`."""
    try:
        role = ROLE_FILE.read_text(encoding="ascii")
    except FileNotFoundError:
        sys.stderr.write("not healthy: the entrypoint has not chosen a role yet\n")
        return 1
    if role in SPARK_UI_PORTS:
        return _answers(SPARK_UI_PORTS[role])
    if role not in _WITHOUT_A_PROBE:
        os.execv(sys.executable, [sys.executable, str(PROJECT_DIR / "manage.py"), "healthcheck", role])
    return 0


def _answers(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/json/")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"not healthy: {error}\n")
        return 1
    finally:
        connection.close()
    return 0 if status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
