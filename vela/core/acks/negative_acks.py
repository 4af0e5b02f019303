"""The negative ack tracker: entries wait here until their redelivery is due."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from vela.core.acks.batch_acks import Position
from vela.wire.redelivery_backoff import RedeliveryBackoff
from vela.wire.timing_wheel import TimingWheel

__all__ = [
    "DEFAULT_NEGATIVE_ACK_DELAY_MS",
    "MIN_NEGATIVE_ACK_DELAY_MS",
    "NegativeAckTimer",
    "NegativeAcks",
]

DEFAULT_NEGATIVE_ACK_DELAY_MS: Final = 60_000
MIN_NEGATIVE_ACK_DELAY_MS: Final = 100

_PRECISE_TICK_MS: Final = 32
_TRUNCATED_TICK_MS: Final = 256
_PERIODS: Final = 3  # how often a periodic timer looks within one delay


class NegativeAckTimer(StrEnum):
    """When negatively acked messages are redelivered, for a delay of d ms."""

    PRECISE = "precise"  # one timer at the earliest due time: after d, at most 32 ms later
    TRUNCATED = "truncated"  # as in Pulsar's Java client: rounded down to 256 ms, so up to 256 ms before d
    PERIODIC = "periodic"  # older clients: checks every d/3, so up to d/3 after d


class NegativeAcks:
    """Entries of one topic to request again after their delay. There is no timer: see `next_due_ms`.

    An entry is requested once, even if several of its messages are negatively acked, or one of them several times. The
    first negative ack starts the delay. Delays below 100 ms count as 100 ms. With a `backoff` the delay grows with the
    redelivery count.
    """

    __slots__ = ("_backoff", "_delay_ms", "_next_look_ms", "_period_ms", "_timer", "_wheel")

    def __init__(
        self,
        *,
        delay_ms: int = DEFAULT_NEGATIVE_ACK_DELAY_MS,
        backoff: RedeliveryBackoff | None = None,
        timer: NegativeAckTimer = NegativeAckTimer.PRECISE,
    ) -> None:
        if delay_ms < 0:
            raise ValueError("negative_ack_redelivery_delay_ms must be 0 or more")
        self._delay_ms = max(MIN_NEGATIVE_ACK_DELAY_MS, delay_ms)
        self._backoff = backoff
        is_periodic = timer is NegativeAckTimer.PERIODIC
        shortest_ms = self._delay_ms if backoff is None else max(MIN_NEGATIVE_ACK_DELAY_MS, backoff.min_ms)
        self._period_ms = shortest_ms // _PERIODS if is_periodic else 0
        self._next_look_ms: int | None = None  # when the periodic timer looks next; None = it does not run
        self._timer = timer
        self._wheel: TimingWheel[Position] = TimingWheel(tick_ms=_PRECISE_TICK_MS)

    def __len__(self) -> int:
        return len(self._wheel)

    def add(self, position: Position, now_ms: int, redelivery_count: int = 0) -> None:
        """Request an entry again after the delay, counted from now."""
        if position in self._wheel:
            return
        delay_ms = self._delay_ms
        if self._backoff is not None:
            delay_ms = max(MIN_NEGATIVE_ACK_DELAY_MS, self._backoff.delay_ms(redelivery_count))
        self._wheel.schedule(position, self._rounded(now_ms + delay_ms))
        if self._period_ms and self._next_look_ms is None:
            self._next_look_ms = now_ms + self._period_ms

    def _rounded(self, due_ms: int) -> int:
        """Round a due time to a tick, so that entries due at nearly the same time are requested together."""
        match self._timer:
            case NegativeAckTimer.PRECISE:
                return due_ms + -due_ms % _PRECISE_TICK_MS
            case NegativeAckTimer.TRUNCATED:
                return due_ms - due_ms % _TRUNCATED_TICK_MS
            case NegativeAckTimer.PERIODIC:
                return due_ms

    def remove(self, position: Position) -> None:
        """Forget an entry that was acked after all. Safe to repeat."""
        self._wheel.cancel(position)

    def remove_through(self, position: Position) -> None:
        """Forget every entry up to this one, like `remove`."""
        for known in [known for known in self._wheel if known <= position]:
            self._wheel.cancel(known)

    def next_due_ms(self) -> int | None:
        """Return when to call `pop_due` next, or None while nothing waits."""
        if self._period_ms and self._wheel:
            return self._next_look_ms
        return self._wheel.next_due_ms()

    def pop_due(self, now_ms: int) -> list[Position]:
        """Remove and return the due entries, ascending."""
        if self._period_ms:
            if self._next_look_ms is None or now_ms < self._next_look_ms:
                return []
            self._next_look_ms = now_ms + self._period_ms
        due = sorted(self._wheel.pop_due(now_ms))
        if not self._wheel:
            self._next_look_ms = None
        return due

    def clear(self) -> None:
        self._wheel.clear()
        self._next_look_ms = None
