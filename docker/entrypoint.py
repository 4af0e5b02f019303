"""The image's entrypoint. `python -m docker.entrypoint ROLE` becomes the role's process, so that signals reach it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from config.run.errors import StartRefused
from docker.roles import commands, environment_of, remember
from docker.together import run_together

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run one role. Returns only for the role `worker`, which supervises processes, and with 2 if it cannot start."""
    role = arguments[0] if len(arguments) == 1 else ""
    try:
        environment = environment_of(role, os.environ)
        lines = commands(role, environment)
        remember(role)
    except StartRefused as refused:
        sys.stderr.write(f"vela: {refused}\n")
        return 2
    except OSError as error:
        sys.stderr.write(
            f"vela: {error.filename} cannot be written ({error.strerror}): make it writable for the user "
            f"{os.geteuid()}, for example with a volume at /data and a tmpfs at /tmp\n"
        )
        return 2
    if len(lines) == 1:
        os.execve(lines[0][0], lines[0], environment)
    return run_together(lines, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
