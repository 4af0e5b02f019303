"""Requests parked until something arrives or their time is over: RocketMQ's suspend table.

No clock and no connection inside: whoever calls executes what comes back. All steps of a notification run without a
pause, so nothing can arrive between "nothing found" and "parked".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from vela.wire.timing_wheel import TimingWheel

__all__ = ["FULL_CHECK_MS", "Matches", "ParkedRequest", "ParkedRequests", "QueueKey"]

FULL_CHECK_MS: Final = 5000  # between two looks at every queue, the net under the notifications
_TICK_MS: Final = 16

Properties: TypeAlias = Mapping[str, str]
Matches: TypeAlias = Callable[[Properties], bool]


class QueueKey(NamedTuple):
    """A pair, not a text with a separator: a topic's name may hold any."""

    topic: str  # full name without the partition
    queue: int


@dataclass(slots=True, kw_only=True, eq=False)
class ParkedRequest:
    """One parked request. Compared by identity."""

    key: QueueKey
    offset: int  # of the first message it wants
    parked_ms: int
    park_ms: int  # how long it may be parked
    matches: Matches | None  # by a message's properties; None = any message will do

    @property
    def due_ms(self) -> int:
        """When it is answered in any case."""
        return self.parked_ms + self.park_ms


H = TypeVar("H", bound=ParkedRequest)


class ParkedRequests(Generic[H]):
    """All parked requests of one process. A request that was returned by any method is not in the table any more."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, list[H]] = {}
        self._due: TimingWheel[H] = TimingWheel(tick_ms=_TICK_MS)
        self._last_full_check_ms = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: QueueKey) -> bool:
        return key in self._queues

    def queues(self) -> Mapping[QueueKey, list[H]]:
        """Who is parked, by queue; for those who ask what is parked."""
        return self._queues

    def park(self, parked: H) -> int:
        """Park a request and return when to call `check`. Look for new messages in the same step, before and not
        after.
        """
        self._queues.setdefault(parked.key, []).append(parked)
        self._due.schedule(parked, parked.due_ms)
        return min(parked.due_ms, self._last_full_check_ms + FULL_CHECK_MS)

    def discard(self, parked: H) -> bool:
        """The peer is gone; False when it has been taken for an answer already."""
        if not self._due.cancel(parked):
            return False
        self._remove(parked)
        return True

    def notify(
        self,
        key: QueueKey,
        newest_offset: int,
        now_ms: int,
        *,
        newest_again: Callable[[], int],
        arrived: Callable[[int], Iterable[Properties]] | None = None,
    ) -> list[H]:
        """Who of one queue is to be answered now that its end is `newest_offset`.

        `arrived(offset)` gives the properties of what has arrived from `offset` on; None, as from the timer, lets
        every filter pass. `newest_again` reads the end once more where the given one looks stale.
        """
        waiting = self._queues.pop(key, [])  # step 1: nobody else can answer them now
        ready: list[H] = []
        kept: list[H] = []
        for parked in waiting:
            if newest_offset <= parked.offset:  # step 2
                newest_offset = max(newest_offset, newest_again())
            is_wanted = newest_offset > parked.offset and _matches(parked, arrived)  # step 3
            if is_wanted or now_ms >= parked.due_ms:  # step 4
                self._due.cancel(parked)
                ready.append(parked)
            else:
                kept.append(parked)  # step 5
        if kept:
            self._queues[key] = kept
        return ready

    def pop_due(self, now_ms: int) -> list[H]:
        """Whose time is over."""
        due = self._due.pop_due(now_ms)
        for parked in due:
            self._remove(parked)
        return due

    def check(
        self,
        now_ms: int,
        newest_of: Callable[[QueueKey], int],
        on_error: Callable[[QueueKey, Exception], None],
    ) -> list[H]:
        """Whose time is over; and, each 5 s, who missed a notification.

        A queue whose end cannot be read is told to `on_error`; it does not stop the others.
        """
        ready = self.pop_due(now_ms)
        if now_ms - self._last_full_check_ms < FULL_CHECK_MS:
            return ready
        self._last_full_check_ms = now_ms
        for key in list(self._queues):
            try:
                newest = newest_of(key)
            except Exception as error:
                on_error(key, error)
                continue
            ready += self.notify(key, newest, now_ms, newest_again=partial(int, newest))
        return ready

    def next_check_ms(self) -> int | None:
        """When to call `check` again; None while nothing is parked."""
        due_ms = self._due.next_due_ms()
        return None if due_ms is None else min(due_ms, self._last_full_check_ms + FULL_CHECK_MS)

    def take(self, key: QueueKey) -> list[H]:
        """Everybody of one queue: it goes away."""
        taken = self._queues.pop(key, [])
        for parked in taken:
            self._due.cancel(parked)
        return taken

    def take_all(self) -> list[H]:
        """Everybody: the broker stops."""
        return [parked for key in list(self._queues) for parked in self.take(key)]

    def _remove(self, parked: H) -> None:
        waiting = self._queues[parked.key]
        waiting.remove(parked)
        if not waiting:
            del self._queues[parked.key]


def _matches(parked: ParkedRequest, arrived: Callable[[int], Iterable[Properties]] | None) -> bool:
    matches = parked.matches
    return (
        matches is None
        or arrived is None
        or any(matches(properties) for properties in arrived(parked.offset))
    )
