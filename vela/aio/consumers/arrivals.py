"""How far a consumer's deliveries have come, for those who ask whether more will."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vela.core.acks.batch_acks import Position

__all__ = ["Arrivals"]


class Arrivals:
    """Of one connection. An entry counts whatever became of it: shown, thrown away, or left because nobody can
    decrypt it. Otherwise whoever reads to a topic's end would wait for an entry that brings no message."""

    __slots__ = ("_waiting", "newest")

    def __init__(self) -> None:
        self.newest: Position | None = None
        """The furthest entry that has come; None = none has, or some that had will come again."""
        self._waiting: list[asyncio.Future[None]] = []

    def note(self, position: Position) -> None:
        """This entry has come, and what was to be done with it is done."""
        if self.newest is None or position > self.newest:
            self.newest = position
        if self._waiting:
            self.wake()

    def reset(self) -> None:
        """Entries that have come will come again: what was taken tells how far the application is."""
        self.newest = None
        self.wake()

    def wake(self) -> None:
        """Nothing more is to be waited for."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next(self, within_s: float) -> None:
        """Until something comes, for so many seconds at most."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await asyncio.wait_for(future, within_s)
        except TimeoutError:
            self._waiting.remove(future)
