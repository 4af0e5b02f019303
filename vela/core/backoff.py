"""The pause before the next attempt."""

from __future__ import annotations

from typing import Final

__all__ = ["Backoff"]

# A pause is shortened by up to this share, so that the clients of a broker do not all come back at once.
_JITTER: Final = 0.2


class Backoff:
    """Pauses that double from `initial_ms` to `max_ms`, each shortened at random by up to a fifth."""

    __slots__ = ("_initial_ms", "_max_ms", "_next_ms")

    def __init__(self, *, initial_ms: float, max_ms: float) -> None:
        self._initial_ms = min(initial_ms, max_ms)
        self._max_ms = max_ms
        self._next_ms = self._initial_ms

    def next_ms(self, chance: float) -> float:
        """Return the next pause. `chance` is a random number in [0, 1)."""
        pause_ms = self._next_ms
        self._next_ms = min(pause_ms * 2, self._max_ms)
        return pause_ms * (1 - _JITTER * chance)

    def reset(self) -> None:
        """Begin with the shortest pause again, because an attempt succeeded."""
        self._next_ms = self._initial_ms
