"""When deliveries are taken back: ack timeouts and negative acks of one subscription (S4.16, S4.19, S4.21, S4.22)."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.core.position import Position
from vela.wire.timing_wheel import TimingWheel

__all__ = ["BUCKET_MS", "DeliveryDeadlines", "Due"]

BUCKET_MS: Final = 32  # what is due within the same bucket comes back together


class Due(NamedTuple):
    """A delivery whose time is over."""

    position: Position
    is_nack: bool  # a negative ack asked for it; else nobody acked in time


class DeliveryDeadlines:
    """One deadline an entry: a negative ack replaces the ack timeout, a second negative ack changes nothing.

    Whatever ends the delivery (ack, redelivery, the consumer's leaving) cancels it. Nothing is due before its time.
    """

    __slots__ = ("_nacked", "_wheel")

    def __init__(self) -> None:
        self._wheel: TimingWheel[Position] = TimingWheel(tick_ms=BUCKET_MS)
        self._nacked: set[Position] = set()

    def __len__(self) -> int:
        return len(self._wheel)

    def time_out(self, position: Position, due_ms: int) -> None:
        """An entry was delivered and is to be acked by then."""
        self._wheel.schedule(position, due_ms)

    def nack(self, position: Position, due_ms: int) -> None:
        """Deliver it again then. The first of several negative acks counts: they must not put it off for ever."""
        if position not in self._nacked:
            self._nacked.add(position)
            self._wheel.schedule(position, due_ms)

    def cancel(self, position: Position) -> None:
        """The delivery is over. Safe to repeat."""
        self._wheel.cancel(position)
        if self._nacked:
            self._nacked.discard(position)

    def cancel_all(self) -> None:
        """Every delivery is over."""
        self._wheel = TimingWheel(tick_ms=BUCKET_MS)
        self._nacked.clear()

    def pop_due(self, now_ms: int) -> list[Due]:
        """Take out what is due at or before `now_ms`, earliest first."""
        due = [Due(position, position in self._nacked) for position in self._wheel.pop_due(now_ms)]
        if self._nacked:
            self._nacked.difference_update([each.position for each in due])
        return due

    def due_ms(self, position: Position) -> int | None:
        """When an entry is due, None when it has no deadline."""
        return self._wheel.due_ms(position)

    def next_due_ms(self) -> int | None:
        """The earliest deadline, None when there is none."""
        return self._wheel.next_due_ms()
