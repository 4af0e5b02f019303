"""Ack timeouts and negative acks of one subscription."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.core.position import Position
from vela.wire.timing_wheel import TimingWheel

__all__ = ["BUCKET_MS", "DeliveryDeadlines", "Due"]

BUCKET_MS: Final = 32


class Due(NamedTuple):
    """A delivery whose deadline has passed."""

    position: Position
    is_nack: bool


class DeliveryDeadlines:
    """Deadlines of delivered entries."""

    __slots__ = ("_nacked", "_wheel")

    def __init__(self) -> None:
        self._wheel: TimingWheel[Position] = TimingWheel(tick_ms=BUCKET_MS)
        self._nacked: set[Position] = set()

    def __len__(self) -> int:
        return len(self._wheel)

    def time_out(self, position: Position, due_ms: int) -> None:
        """Set the ack timeout of a delivered entry."""
        self._wheel.schedule(position, due_ms)

    def nack(self, position: Position, due_ms: int) -> None:
        """Set the redelivery time of an entry after a negative ack.

        Repeated negative acks change nothing. Otherwise a client could postpone the redelivery forever.
        """
        if position not in self._nacked:
            self._nacked.add(position)
            self._wheel.schedule(position, due_ms)

    def cancel(self, position: Position) -> None:
        """Cancel the deadline of an entry. Safe to repeat."""
        self._wheel.cancel(position)
        if self._nacked:
            self._nacked.discard(position)

    def cancel_all(self) -> None:
        """Cancel all deadlines."""
        self._wheel = TimingWheel(tick_ms=BUCKET_MS)
        self._nacked.clear()

    def pop_due(self, now_ms: int) -> list[Due]:
        """Remove and return the deliveries whose deadline has passed, earliest first."""
        due = [Due(position, position in self._nacked) for position in self._wheel.pop_due(now_ms)]
        if self._nacked:
            self._nacked.difference_update([each.position for each in due])
        return due

    def due_ms(self, position: Position) -> int | None:
        """Return the deadline of an entry, or None if the entry has no deadline."""
        return self._wheel.due_ms(position)

    def next_due_ms(self) -> int | None:
        """Return the earliest deadline, or None if there is no deadline."""
        return self._wheel.next_due_ms()
