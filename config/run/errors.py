"""Why Vela did not start, in one sentence for whoever typed the command."""

from __future__ import annotations

__all__ = ["StartRefused"]


class StartRefused(Exception):
    """Nothing was started, or all of it was stopped again. The text is one sentence and names what to change."""
