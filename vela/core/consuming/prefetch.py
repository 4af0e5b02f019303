"""Whether a consumer hoards: its queue has messages of a Shared subscription that others could process."""

from __future__ import annotations

from typing import Final

__all__ = ["LOOK_MS", "Prefetch"]

LOOK_MS: Final = 30_000
"""How often to look."""
_FEW: Final = 10  # messages in a queue that are not worth a word
_LONG_MS: Final = 60_000


class Prefetch:
    """Learns every `LOOK_MS` how many messages wait in the queue and how many were taken in total."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = 0  # in all, at the last look

    def hoards(self, *, queued: int, taken: int) -> bool:
        """Whether the last message of the queue will wait for more than a minute, at the pace since the last look."""
        taken_since, self._taken = taken - self._taken, taken
        return queued > _FEW and queued * LOOK_MS > taken_since * _LONG_MS
