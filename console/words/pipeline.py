"""The tones (colour and icon) for the states of pipeline runs."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop

__all__ = ["run_tone"]

_TONES: Final = {
    gettext_noop("waiting"): "calm",
    gettext_noop("running"): "warn",
    gettext_noop("done"): "good",
    gettext_noop("failed"): "bad",
    gettext_noop("cancelled"): "calm",
}


def run_tone(state: str) -> str:
    """Return the tone of a state."""
    return _TONES.get(state, "calm")
