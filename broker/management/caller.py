"""The user who runs a command of `manage.py`."""

from __future__ import annotations

import getpass
import os

__all__ = ["caller"]


def caller() -> str:
    """Return the user's name in the operating system, or `uid` and a number if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python before 3.13 raises KeyError
        return f"uid {os.geteuid()}"
