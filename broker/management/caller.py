"""Who runs a command of `manage.py`, for the act log."""

from __future__ import annotations

import getpass
import os

__all__ = ["caller"]


def caller() -> str:
    """Return the name of the operating system's user, or the user's number if there is no name, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"uid {os.geteuid()}"
