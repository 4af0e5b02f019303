"""The newest entry that a consumer has received. Calls can wait for the next one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vela.core.acks.batch_acks import Position

__all__ = ["Arrivals"]


class Arrivals:
    """The newest entry that arrived over the current connection.

    An entry also counts if it was discarded or cannot be decrypted. Otherwise a caller that reads to the end of a topic
    would wait for an entry that brings no message.
    """

    __slots__ = ("_waiting", "newest")

    def __init__(self) -> None:
        self.newest: Position | None = None
        """The highest entry that has arrived; None if there is none, or if arrived entries will be delivered again."""
        self._waiting: list[asyncio.Future[None]] = []

    def note(self, position: Position) -> None:
        """Record an entry that has arrived and is fully processed."""
        if self.newest is None or position > self.newest:
            self.newest = position
        if self._waiting:
            self.wake()

    def reset(self) -> None:
        """Forget the newest entry, because arrived entries will be delivered again. Wakes waiting calls."""
        self.newest = None
        self.wake()

    def wake(self) -> None:
        """Wake all calls that wait in `next`."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next(self, within_s: float) -> None:
        """Wait until an entry arrives or `wake` is called, at most `within_s` seconds."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await future
        finally:
            if future in self._waiting:  # else `wake` was called at the same moment
                self._waiting.remove(future)
