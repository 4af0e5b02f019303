"""Whether a consumer hoards: it holds messages of a Shared subscription that others could process."""

from __future__ import annotations

from typing import Final

__all__ = ["LOOK_MS", "Prefetch"]

LOOK_MS: Final = 30_000
"""How often to look."""
_FEW: Final = 10  # messages in a queue that are not worth a word
_LONG_MS: Final = 60_000


class Prefetch:
    """Told every `LOOK_MS` how many messages wait in the queue and how many were taken in all."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = 0  # in all, at the last look

    def hoards(self, *, queued: int, taken: int) -> bool:
        """At the pace since the last look, the last message of the queue waits for more than a minute."""
        taken_since, self._taken = taken - self._taken, taken
        return queued > _FEW and queued * LOOK_MS > taken_since * _LONG_MS
