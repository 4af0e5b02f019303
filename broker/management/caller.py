"""The user who runs a command of `manage.py`."""

from __future__ import annotations

import getpass
import os

__all__ = ["caller"]


def caller() -> str:
    """Return the user's login name, or `uid` and the numeric user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python before 3.13 raises KeyError
        return f"uid {os.geteuid()}"
