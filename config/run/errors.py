"""The error that tells the user why Vela did not start."""

from __future__ import annotations

__all__ = ["StartRefused"]


class StartRefused(Exception):
    """Vela did not start, and nothing is left running. The text says what to change, with one line for each fault."""
