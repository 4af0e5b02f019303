"""The user who runs a command of `manage.py`."""

from __future__ import annotations

import getpass
import os

__all__ = ["caller"]


def caller() -> str:
    """Return the name of the operating system's user, or `uid` and a number if there is no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python before 3.13 raises KeyError
        return f"uid {os.geteuid()}"
