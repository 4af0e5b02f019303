"""States of the pipeline's runs."""

from __future__ import annotations

from typing import Final

__all__ = ["run_tone"]

_TONES: Final = {"waiting": "calm", "running": "warn", "done": "good", "failed": "bad", "cancelled": "calm"}


def run_tone(state: str) -> str:
    """Return the tone of a state."""
    return _TONES.get(state, "calm")
