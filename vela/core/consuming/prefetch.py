"""Find out whether a Shared consumer hoards messages that others could process."""

from __future__ import annotations

from typing import Final

__all__ = ["LOOK_MS", "Prefetch"]

LOOK_MS: Final = 30_000
"""How often to look."""
_FEW: Final = 10  # messages in a queue that are too few to warn about
_LONG_MS: Final = 60_000


class Prefetch:
    """Compares the queue and the taken messages every `LOOK_MS`."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = 0  # the total at the last look

    def hoards(self, *, queued: int, taken: int) -> bool:
        """Return whether the queue's last message will wait for more than a minute, at the pace since the last look.

        False if the total went back, because a topic left the consumer and took its counts along: the pace is unknown.
        """
        taken_since, self._taken = taken - self._taken, taken
        return taken_since >= 0 and queued > _FEW and queued * LOOK_MS > taken_since * _LONG_MS
