"""One consumer's messages that were delivered and not taken yet."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from vela.message import Message

if TYPE_CHECKING:
    from vela.aio.deliveries.receive_queue import ReceiveQueue
    from vela.core.acks.batch_acks import Position

__all__ = ["Untaken"]


class Untaken:
    """One consumer's messages in a queue that other consumers may share. During a seek, they are held back here.

    A seek that succeeds drops them, because they are from before it. If the seek fails, they go back into the queue.
    """

    __slots__ = ("_held", "_queue", "_receiver", "_released")

    def __init__(self, receiver: object, queue: ReceiveQueue) -> None:
        """`receiver` is the consumer whose messages these are."""
        self._receiver = receiver
        self._queue = queue
        self._held: list[Message] = []
        self._released = asyncio.Event()
        self._released.set()

    @property
    def is_held(self) -> bool:
        """Return whether messages are held back now."""
        return not self._released.is_set()

    def has_any(self) -> bool:
        """Return whether the queue has a message, even if it belongs to another consumer that shares the queue."""
        return bool(self._queue.messages)

    def put(self, messages: list[Message]) -> None:
        """Add messages that have arrived."""
        if self.is_held:
            self._held += messages
        else:
            self._queue.put(messages)

    def find(self, positions: Collection[Position]) -> list[Message]:
        """Return the messages of these entries."""
        held = [message for message in self._held if _position(message) in positions]
        return held + self._queue.find(
            lambda message: message.entry.receiver is self._receiver and _position(message) in positions
        )

    def remove(self, positions: Collection[Position]) -> list[Message]:
        """Remove and return the messages of these entries."""
        removed = self._queue.remove(
            lambda message: message.entry.receiver is self._receiver and _position(message) in positions
        )
        held, self._held = self._held, []
        for message in held:
            (removed if _position(message) in positions else self._held).append(message)
        return removed

    def clear(self) -> list[Message]:
        """Remove and return all messages."""
        removed = self._queue.remove(lambda message: message.entry.receiver is self._receiver)
        removed += self._held
        self._held.clear()
        return removed

    def hold(self) -> None:
        """Hold back all messages until `release`."""
        self._held = self.clear()
        self._released.clear()

    def release(self) -> None:
        """Put the messages that are still held, and are not outdated, back into the queue."""
        self._released.set()
        held, self._held = self._held, []
        if kept := [message for message in held if self._queue.is_current(message)]:
            self._queue.put(kept)

    async def until_released(self) -> None:
        """Wait until no message is held back."""
        await self._released.wait()


def _position(message: Message) -> Position:
    return message.entry.ledger_id, message.entry.entry_id
