"""Apply late acks.

An ack is late if the broker must first load the message counts of the acked entries, or if an earlier ack is late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.core.errors import ServiceNotReady
from broker.core.ledgers.message_index import IndexMissing

if TYPE_CHECKING:
    from broker.log.reader import TopicReader
    from broker.subscription.machine.acks import AckCommand, Acks
    from broker.subscription.machine.effects import Effects

__all__ = ["AcksWithoutCounts"]


class AcksWithoutCounts:
    """Applies the late acks of one subscription."""

    def __init__(
        self,
        acks: Acks,
        reader: TopicReader,
        *,
        carry_out: Callable[[Effects], None],
        failed: Callable[[AckCommand, Exception], None],
    ) -> None:
        self._acks = acks
        self._reader = reader
        self._carry_out = carry_out
        self._failed = failed
        self._applying: asyncio.Task[None] | None = None

    def start(self, name: str) -> asyncio.Task[None]:
        """Start a task that applies the late acks. The caller must keep a reference to the task."""
        self._applying = asyncio.create_task(self._apply(), name=name)
        return self._applying

    async def settled(self) -> None:
        """Wait until no ack is late. Safe to cancel."""
        if self._applying is not None:
            await asyncio.wait((self._applying,))

    async def _apply(self) -> None:
        acks = self._acks
        try:
            while (command := acks.first_late) is not None:
                effects: Effects = ()
                try:
                    try:
                        effects = acks.apply_first_late()
                    except IndexMissing as missing:
                        await self._reader.load_index(missing.ranges)
                except ServiceNotReady as error:
                    effects = acks.refuse_first_late(error)
                except Exception as error:  # The other late acks must still be applied
                    acks.drop_first_late()
                    self._failed(command, error)
                self._carry_out(effects)
        finally:
            acks.forget_late()
