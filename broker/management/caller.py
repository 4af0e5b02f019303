"""Who runs a command of `manage.py`, for the act log."""

from __future__ import annotations

import getpass
import os

__all__ = ["caller"]


def caller() -> str:
    """Return the user's name in the operating system, or `uid` and a number if there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"uid {os.geteuid()}"
