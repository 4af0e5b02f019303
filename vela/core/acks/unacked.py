"""The trackers of the ack timeout, for messages that the application took and has not acked."""

from __future__ import annotations

from typing import Final

from vela.core.acks.batch_acks import Position
from vela.wire.redelivery_backoff import RedeliveryBackoff
from vela.wire.timing_wheel import TimingWheel

__all__ = [
    "DEFAULT_TICK_MS",
    "MIN_ACK_TIMEOUT_MS",
    "MIN_TICK_MS",
    "BackoffUnackedTracker",
    "UnackedTracker",
    "unacked_tracker",
]

MIN_ACK_TIMEOUT_MS: Final = 1000
DEFAULT_TICK_MS: Final = 1000
MIN_TICK_MS: Final = 100


def unacked_tracker(
    timeout_ms: int | None, *, tick_ms: int = DEFAULT_TICK_MS, backoff: RedeliveryBackoff | None = None
) -> UnackedTracker | None:
    """Return the tracker for these settings, or None if there is no ack timeout.

    Raises ValueError for a timeout under a second that is not 0 or None, and for a tick under 100 ms.
    """
    if not timeout_ms:
        return None
    if timeout_ms < MIN_ACK_TIMEOUT_MS:
        raise ValueError(
            f"unacked_messages_timeout_ms is {timeout_ms}: give {MIN_ACK_TIMEOUT_MS} or more, or 0 for none"
        )
    if tick_ms < MIN_TICK_MS:
        raise ValueError(f"unacked_messages_tick_ms is {tick_ms}: give {MIN_TICK_MS} or more")
    tick_ms = min(tick_ms, timeout_ms)
    if backoff is None:
        return UnackedTracker(timeout_ms=timeout_ms, tick_ms=tick_ms)
    return BackoffUnackedTracker(timeout_ms=timeout_ms, tick_ms=tick_ms, backoff=backoff)


class UnackedTracker:
    """Entries taken by the application. An entry that is not removed expires after the timeout.

    The entries are in a wheel of ceil(timeout / tick) + 1 slots: an entry is added to the last slot, and a tick removes
    the first slot. So an entry expires at most two ticks late, if no tick is late. Only slots with entries take memory,
    because a timeout of a day has 86,401 slots. There is no timer: the caller of `start` calls `pop_expired` at
    `next_tick_ms`, as long as that is not None.
    """

    __slots__ = ("_slots", "_tick_ms", "_tick_of", "_ticks", "next_tick_ms", "slots")

    def __init__(self, *, timeout_ms: int, tick_ms: int) -> None:
        self.slots = -(-timeout_ms // tick_ms) + 1
        """The number of slots of the wheel."""
        self._tick_ms = tick_ms
        self._ticks = 0  # so far
        self._slots: dict[int, set[Position]] = {}  # by the tick at which the entries expire; none is empty
        self._tick_of: dict[Position, int] = {}
        self.next_tick_ms: int | None = None  # None while nothing is tracked

    def __len__(self) -> int:
        return len(self._tick_of)

    def start(self, now_ms: int) -> None:
        """Begin to tick: the first entry after a pause is about to be added."""
        self.next_tick_ms = now_ms + self._tick_ms

    def add(self, position: Position, redelivery_count: int = 0) -> None:
        """Track an entry from which the application took a message. An entry that is already tracked keeps its time."""
        if position not in self._tick_of:
            tick = self._tick_of[position] = self._ticks + self.slots
            self._slots.setdefault(tick, set()).add(position)

    def remove(self, position: Position) -> None:
        """Stop tracking an entry: it was acked or negatively acked, or is delivered again. Safe to repeat."""
        tick = self._tick_of.pop(position, None)
        if tick is not None:
            slot = self._slots[tick]
            slot.remove(position)
            if not slot:
                del self._slots[tick]

    def remove_through(self, position: Position) -> None:
        """Stop tracking every entry up to this one, for a cumulative ack."""
        for known in [known for known in self._tick_of if known <= position]:
            self.remove(known)

    def clear(self) -> None:
        """Forget every entry. Ticking ends with the next tick."""
        self._slots.clear()
        self._tick_of.clear()

    def pop_expired(self, now_ms: int) -> list[Position]:
        """Carry out a tick if it is due: remove and return the entries that expire with it, ascending.

        A late tick still counts as one tick, and the next follows a whole tick later. Some entries then expire late.
        If the tracker caught up, entries added in the meantime would expire early.
        """
        if self.next_tick_ms is None or now_ms < self.next_tick_ms:
            return []
        expired = self._turn(now_ms)
        self.next_tick_ms = now_ms + self._tick_ms if len(self) else None
        return expired

    def _turn(self, now_ms: int) -> list[Position]:
        """Remove the first slot and return its entries, ascending."""
        self._ticks += 1
        expired = sorted(self._slots.pop(self._ticks, ()))
        for position in expired:
            del self._tick_of[position]
        return expired


class BackoffUnackedTracker(UnackedTracker):
    """After the timeout, an entry waits a second time, longer for a higher redelivery count, and then expires."""

    __slots__ = ("_backoff", "_counts", "_waiting")

    def __init__(self, *, timeout_ms: int, tick_ms: int, backoff: RedeliveryBackoff) -> None:
        super().__init__(timeout_ms=timeout_ms, tick_ms=tick_ms)
        self._backoff = backoff
        self._counts: dict[Position, int] = {}
        self._waiting: TimingWheel[Position] = TimingWheel(tick_ms=1)

    def __len__(self) -> int:
        return len(self._tick_of) + len(self._waiting)

    def add(self, position: Position, redelivery_count: int = 0) -> None:
        if position not in self._waiting:
            super().add(position)
            self._counts[position] = redelivery_count

    def remove(self, position: Position) -> None:
        super().remove(position)
        self._counts.pop(position, None)
        self._waiting.cancel(position)

    def remove_through(self, position: Position) -> None:
        for known in [known for known in self._counts if known <= position]:
            self.remove(known)

    def clear(self) -> None:
        super().clear()
        self._counts.clear()
        self._waiting.clear()

    def _turn(self, now_ms: int) -> list[Position]:
        for position in super()._turn(now_ms):
            self._waiting.schedule(position, now_ms + self._backoff.delay_ms(self._counts[position]))
        expired = sorted(self._waiting.pop_due(now_ms))
        for position in expired:
            del self._counts[position]
        return expired
