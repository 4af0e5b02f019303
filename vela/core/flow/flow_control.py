"""Flow control of one consumer: which permits it grants to the broker, and when.

`Permits` counts them. The client's memory limit may withhold them for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vela.core.flow.memory_limit import MemoryLimit, MemoryShare
from vela.message import Message

__all__ = ["FlowControl", "Permits"]


class Permits(Protocol):
    """The permits of one consumer.

    `attached`, `give_back`, `ran_dry` and `resume` return how many permits to grant now; 0 = none.
    """

    @property
    def size(self) -> int:
        """Return how many messages may wait for the application."""

    @property
    def is_paused(self) -> bool:
        """Return whether nothing is granted."""

    @property
    def at_broker(self) -> int:
        """Return the permits that were granted and not spent; below 0 after messages without a permit."""

    def available(self, waiting: int) -> int:
        """Return how many more messages there is room for. `waiting`: how many wait for the application."""

    def attached(self) -> int:
        """Begin on a new connection, where the broker has no permits."""

    def spent(self, permits: int) -> None:
        """Count the permits that a delivery cost."""

    def give_back(self, permits: int) -> int:
        """Free the permits of messages that were taken, or will not be taken."""

    def take_back(self, permits: int) -> None:
        """Undo `give_back` for messages that were not taken after all."""

    def emptied(self) -> None:
        """Note that the waiting messages were dropped."""

    def ran_dry(self) -> int:
        """Note that the application wants a message and none waits."""

    def pause(self) -> None:
        """Grant nothing until `resume`. Safe to repeat."""

    def resume(self) -> int:
        """Grant again. Safe to repeat."""


class FlowControl:
    """The permits of one consumer, and the memory that its waiting messages use."""

    __slots__ = ("_memory", "_send", "permits")

    def __init__(self, permits: Permits, memory: MemoryLimit, send: Callable[[int], None]) -> None:
        """`send` is a function that sends permits to the broker, if there is a connection."""
        self.permits = permits
        """The count of the permits."""
        self._memory = MemoryShare(memory, send) if memory.limit_bytes else None
        self._send = send

    @property
    def is_spent(self) -> bool:
        """Return whether the broker has no permits, so that nothing arrives before the application takes messages."""
        withheld = 0 if self._memory is None else self._memory.withheld
        return self.permits.at_broker <= withheld

    def attached(self) -> None:
        """Grant all permits anew, because a consumer that has just subscribed has none at the broker."""
        if self._memory is not None:
            self._memory.reset()
        self.grant(self.permits.attached())

    def spent(self, permits: int) -> None:
        """Count the permits that a delivery cost. Call `keep` next."""
        self.permits.spent(permits)

    def keep(self, messages: Sequence[Message], permits: int) -> None:
        """Count the memory of a delivery's messages that will be shown. The delivery cost these permits."""
        if self._memory is not None:
            self._memory.add(_payload_bytes(messages), permits)

    def not_shown(self, permits: int) -> None:
        """Restore permits of messages that the application will not see. A negative number withdraws permits."""
        self.spent(permits)
        self.keep((), permits)
        self.give_back(permits)

    def taken(self, message: Message) -> None:
        """Count a message that the application got."""
        if self._memory is not None:
            self._memory.remove(len(message.body.payload))
        if permits := self.permits.give_back(1):
            self.grant(permits)

    def untaken(self, message: Message) -> None:
        """Undo `taken` for a message that goes back into the queue."""
        if self._memory is not None:
            self._memory.put_back(len(message.body.payload))
        self.permits.take_back(1)

    def removed(self, messages: Sequence[Message]) -> None:
        """Count messages that were removed from the queue. Their permits are not restored."""
        if self._memory is not None:
            self._memory.remove(_payload_bytes(messages))

    def emptied(self, messages: Sequence[Message]) -> None:
        """Count all waiting messages, which were dropped. Their permits are not restored."""
        self.permits.emptied()
        self.removed(messages)

    def give_back(self, messages: int) -> None:
        """Restore the permits of messages that left the queue without being taken."""
        self.grant(self.permits.give_back(messages))

    def ran_dry(self) -> None:
        """Note that the application wants a message and none waits."""
        self.grant(self.permits.ran_dry())

    def pause(self) -> None:
        """Grant nothing until `resume`. Safe to repeat."""
        self.permits.pause()
        if self._memory is not None:
            self._memory.pause()

    def resume(self) -> None:
        """Grant again. Safe to repeat."""
        permits = self.permits.resume()
        if self._memory is None:
            self.grant(permits)
        else:
            self._memory.resume(permits)

    def grant(self, permits: int) -> None:
        """Grant permits: now, or as soon as the memory limit allows it."""
        if permits == 0:
            return
        if self._memory is None:
            self._send(permits)
        else:
            self._memory.grant(permits)

    def close(self) -> None:
        """Release the memory, because all waiting messages were dropped."""
        if self._memory is not None:
            self._memory.reset()


def _payload_bytes(messages: Sequence[Message]) -> int:
    return sum(len(message.body.payload) for message in messages)
