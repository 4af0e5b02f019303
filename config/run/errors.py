"""The error that tells the user why Vela did not start."""

from __future__ import annotations

__all__ = ["StartRefused"]


class StartRefused(Exception):
    """Nothing was started, or all of it was stopped again. The text says what to change, in a line for each fault."""
