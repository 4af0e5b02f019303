"""Long-poll requests, which are parked until a message arrives or they time out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from vela.wire.timing_wheel import TimingWheel

__all__ = ["FULL_CHECK_MS", "Matches", "ParkedRequest", "ParkedRequests", "QueueKey"]

FULL_CHECK_MS: Final = 5000  # Time between checks for messages whose notification was lost
_TICK_MS: Final = 16

Properties: TypeAlias = Mapping[str, str]
Matches: TypeAlias = Callable[[Properties], bool]


class QueueKey(NamedTuple):
    """One queue: a partition of a topic, or a topic without partitions."""

    topic: str  # Full name without the partition
    queue: int  # Partition number; -1 for a topic without partitions


@dataclass(slots=True, kw_only=True, eq=False)
class ParkedRequest:
    """One parked request."""

    key: QueueKey
    offset: int  # Offset of the first wanted message
    parked_ms: int
    park_ms: int
    matches: Matches | None  # If None, every message matches

    @property
    def due_ms(self) -> int:
        """When the request times out, in Unix ms."""
        return self.parked_ms + self.park_ms


H = TypeVar("H", bound=ParkedRequest)


class ParkedRequests(Generic[H]):
    """All parked requests of one process."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, dict[H, None]] = {}
        self._due: TimingWheel[H] = TimingWheel(tick_ms=_TICK_MS)
        self._last_full_check_ms = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: QueueKey) -> bool:
        return key in self._queues

    def queues(self) -> Mapping[QueueKey, Collection[H]]:
        """Return the parked requests by queue."""
        return self._queues

    def park(self, parked: H) -> int:
        """Park a request, and return the time at which to call `check`.

        Do not await between looking for messages and this call. Otherwise a message could arrive unnoticed.
        """
        if not self._queues:
            self._last_full_check_ms = parked.parked_ms
        self._queues.setdefault(parked.key, {})[parked] = None
        self._due.schedule(parked, parked.due_ms)
        return min(parked.due_ms, self._last_full_check_ms + FULL_CHECK_MS)

    def discard(self, parked: H) -> bool:
        """Remove a request. Returns False if the request was removed earlier."""
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
        """Remove and return one queue's requests that have a matching message or have timed out.

        `newest_offset` is the offset after the queue's newest message, and `newest_again` reads that offset again.
        `arrived` returns the properties of all messages from an offset on. Without `arrived`, every message matches.
        """
        waiting = self._queues.pop(key, {})  # Another call must not answer the same requests
        ready: list[H] = []
        kept: dict[H, None] = {}
        for parked in waiting:
            if newest_offset <= parked.offset:
                newest_offset = max(newest_offset, newest_again())
            is_wanted = newest_offset > parked.offset and _matches(parked, arrived)
            if is_wanted or now_ms >= parked.due_ms:
                self._due.cancel(parked)
                ready.append(parked)
            else:
                kept[parked] = None
        if kept:
            self._queues[key] = kept
        return ready

    def pop_due(self, now_ms: int) -> list[H]:
        """Remove and return the requests that have timed out."""
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
        """Remove and return the requests that have timed out.

        Every 5 s, also remove and return the requests that have a message.
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
        """Return the time at which to call `check` next, or None if nothing is parked."""
        due_ms = self._due.next_due_ms()
        return None if due_ms is None else min(due_ms, self._last_full_check_ms + FULL_CHECK_MS)

    def take(self, key: QueueKey) -> list[H]:
        """Remove and return all requests of one queue."""
        taken = list(self._queues.pop(key, {}))
        for parked in taken:
            self._due.cancel(parked)
        return taken

    def take_all(self) -> list[H]:
        """Remove and return all requests."""
        return [parked for key in list(self._queues) for parked in self.take(key)]

    def _remove(self, parked: H) -> None:
        waiting = self._queues[parked.key]
        del waiting[parked]
        if not waiting:
            del self._queues[parked.key]


def _matches(parked: ParkedRequest, arrived: Callable[[int], Iterable[Properties]] | None) -> bool:
    matches = parked.matches
    return (
        matches is None
        or arrived is None
        or any(matches(properties) for properties in arrived(parked.offset))
    )
