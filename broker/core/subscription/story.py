"""The delivery story of a subscription: which consumers got and acked which entries, and when.

An entry *comes back* when a delivery of the entry ends without an ack.

This file is long because every event changes the same state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker.core.cursor.position_set import PositionSet
from broker.core.policies.policies import DeliveryStoryMode
from broker.core.position import Position
from broker.core.subscription.story_rows import MOST_ENTRIES, StoryBuffer, StoryEvent, StoryRow

if TYPE_CHECKING:
    from broker.core.cursor.cursor import Cursor
    from broker.core.ledgers.message_index import Range
    from broker.core.subscription.redelivery import RedeliveryCounts

__all__ = ["DeliveryStory", "PendingRun", "StoryConsumer", "StoryEntry", "without_acked"]

# If this many rows of a subscription wait in the shared buffer, further events are only counted.
MOST_ROWS: Final = 2_000
_MOST_SENT: Final = 1_000
_GROWS_MS: Final = 1_000


class StoryConsumer(Protocol):
    """The facts that a story records about a consumer."""

    @property
    def key(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...


class StoryEntry(Protocol):
    """An entry that is sent to a consumer."""

    @property
    def position(self) -> Position: ...


class PendingRun(NamedTuple):
    """Neighbouring entries that were delivered together and not acked."""

    ledger_id: int
    first: int
    last: int
    delivered_ms: int
    redelivery_count: int


class _Broker:
    """The broker, recorded in place of a consumer."""

    key, name, address = 0, "", ""


class _Sent:
    """Neighbouring entries that were sent to one Exclusive or Failover consumer."""

    __slots__ = ("at_ms", "consumer", "first", "last", "ledger_id", "until_ms")

    def __init__(self, consumer: StoryConsumer, ledger_id: int, first: int, last: int, now_ms: int) -> None:
        self.consumer = consumer
        self.ledger_id, self.first, self.last = ledger_id, first, last
        self.at_ms = self.until_ms = now_ms


_BROKER: Final = _Broker()


class DeliveryStory:
    """Records the deliveries and acks of one subscription.

    For a reader, `subscription_id` is None and nothing is recorded. While `watches_deliveries` is false, callers need
    not report deliveries. While `watches_acks` is false, callers need not report acks of consumers.
    """

    __slots__ = (
        "_again",
        "_buffer",
        "_growing",
        "_id",
        "_keep_ms",
        "_keeps_order",
        "_left_out",
        "_records_all",
        "_round",
        "_rows",
        "_sent",
        "is_on",
        "watches_acks",
        "watches_deliveries",
    )

    def __init__(self, buffer: StoryBuffer, subscription_id: int | None) -> None:
        self._buffer = buffer
        self._id = subscription_id
        self._keep_ms = 0
        self._records_all = False
        self._keeps_order = False
        self._again = PositionSet()  # Entries that came back and are not acked yet
        self._sent: list[_Sent] = []  # A deque would take 0.7 KiB in each idle subscription
        self._round = -1
        self._rows = 0
        self._growing: dict[tuple[StoryEvent, int, int, str], StoryRow] = {}
        self._left_out: dict[int, StoryRow] = {}
        self.is_on = False
        self.watches_deliveries = False
        self.watches_acks = False

    def use_policy(self, mode: DeliveryStoryMode, keep_ms: int) -> None:
        """From now on, record the events that `mode` selects."""
        self._keep_ms = keep_ms
        self.is_on = self._id is not None and mode is not DeliveryStoryMode.OFF
        self._records_all = self.is_on and mode is DeliveryStoryMode.ALL
        if not self.is_on:
            self._again.clear()
            self._sent.clear()
        self._watch()

    def use_type(self, *, keeps_order: bool) -> None:
        """Set whether the dispatcher keeps order. Call this method only while no consumer is connected."""
        self._keeps_order = keeps_order
        self._sent.clear()
        self._watch()

    def delivered(
        self,
        consumer: StoryConsumer,
        entries: Sequence[StoryEntry],
        counts: RedeliveryCounts,
        cursor: Cursor,
        now_ms: int,
    ) -> None:
        """Record that entries were sent to a consumer. `entries` must be ascending and not empty."""
        if self._keeps_order:
            run = self._sent[-1] if self._sent else None
            ledger_id, first = entries[0].position
            if (
                run is not None
                and first == run.last + 1
                and run.consumer is consumer
                and ledger_id == run.ledger_id
                and now_ms < run.at_ms + _GROWS_MS
                and (len(entries) == 1 or _has_no_gap(entries))
            ):
                run.last, run.until_ms = first + len(entries) - 1, now_ms
            else:
                self._remember(consumer, [each.position for each in entries], cursor.mark_delete, now_ms)
        if not self.watches_acks:
            return
        again = self._again
        positions = [each.position for each in entries if self._records_all or each.position in again]
        for count, ledger_id, first, last in _runs(positions, counts.get if len(counts) else None):
            self._note(StoryEvent.DELIVERED, consumer, ledger_id, first, last, now_ms, count=count)

    def returned(
        self, event: StoryEvent, consumer: StoryConsumer, pending: Sequence[PendingRun], now_ms: int
    ) -> None:
        """Record that deliveries to a consumer ended without an ack."""
        self._growing.clear()
        if not self._records_all:
            for ledger_id, first, last, delivered_ms, count in pending:
                for span in self._first_returns(ledger_id, first, last):
                    self._note(StoryEvent.DELIVERED, consumer, *span, delivered_ms, count=count)
            self._growing.clear()
        for ledger_id, first, last, _, count in pending:
            self._note(event, consumer, ledger_id, first, last, now_ms, count=count)
            self._again.add_run(ledger_id, first, last)
        self._watch()

    def rewound(self, event: StoryEvent, cursor: Cursor, now_ms: int) -> None:
        """Record that an Exclusive or Failover subscription will redeliver all unacked entries."""
        sent, runs = self._sent, list(self._sent)
        self._growing.clear()
        parts = _of_consumers(runs, cursor)
        returned = list(islice(parts, MOST_ROWS))
        first_left_out = next(parts, None)
        if not self._records_all:
            for run, *unacked in returned:
                for span in self._first_returns(*unacked):
                    self._note(StoryEvent.DELIVERED, run.consumer, *span, run.at_ms, until_ms=run.until_ms)
        sent.clear()
        self._growing.clear()
        for run, ledger_id, first, last in returned:
            self._note(event, run.consumer, ledger_id, first, last, now_ms)
            self._again.add_run(ledger_id, first, last)
        if first_left_out is not None:
            _, ledger_id, first, _ = first_left_out
            self._leave_out_from(Position(ledger_id, first), runs, cursor, now_ms)
        self._watch()

    def _leave_out_from(self, position: Position, runs: Sequence[_Sent], cursor: Cursor, now_ms: int) -> None:
        """Count the unrecorded events of the unacked entries from `position` on.

        `position` must come after the mark-delete position.
        """
        # Count two events for each entry: its delivery, and that it came back. If `_records_all` is set, the delivery
        # is already recorded.
        events = 1 if self._records_all else 2
        for run in runs:
            ledger_id, first, last = run.ledger_id, run.first, run.last
            if (ledger_id, last) < position:
                continue
            if ledger_id == position.ledger_id:
                first = max(first, position.entry_id)
            unacked = last - first + 1 - cursor.acked_in(ledger_id, first, last)
            if unacked:
                self._leave_out(ledger_id, first, last, run.at_ms, now_ms, events=events * unacked)

    def _first_returns(self, ledger_id: int, first: int, last: int) -> Iterator[Range]:
        again = self._again
        if not len(again):
            yield ledger_id, first, last
            return
        new = [each for each in _positions(ledger_id, first, last) if each not in again]
        for _, _, since, until in _runs(new, None):
            yield ledger_id, since, until

    def acked(self, consumer: StoryConsumer | None, position: Position, completed: bool, now_ms: int) -> None:
        """Record an ack of an entry or of some of its messages. `consumer` is None if the broker itself acked."""
        if self._records_all or position in self._again:
            event = StoryEvent.ACKED if completed else StoryEvent.PARTLY_ACKED
            self._note(event, consumer or _BROKER, *_span(position), now_ms)
            if completed and self._again.discard(position):
                self._watch()

    def acked_through(
        self, event: StoryEvent, consumer: StoryConsumer | None, newly: Sequence[Range], now_ms: int
    ) -> None:
        """Record that a cumulative ack or message expiry has acked entries."""
        again = self._again
        for ledger_id, first, last in newly:
            runs: Iterable[tuple[int, int, int, int]] = ((0, ledger_id, first, last),)
            if not self._records_all and event is StoryEvent.ACKED:
                runs = _runs([p for p in _positions(ledger_id, first, last) if p in again], None)
            for _, _, since, until in runs:
                self._note(event, consumer or _BROKER, ledger_id, since, until, now_ms)
        if newly:
            ledger_id, _, last = newly[-1]
            again.discard_before(Position(ledger_id, last + 1))
            self._watch()

    def discarded(self, event: StoryEvent, position: Position, now_ms: int) -> None:
        """Record that the broker acked an entry because no consumer may get it."""
        if self._records_all or event is StoryEvent.CORRUPT or position in self._again:
            self._note(event, _BROKER, *_span(position), now_ms)
        if self._again.discard(position):
            self._watch()

    def lettered(
        self, event: StoryEvent, consumer: StoryConsumer, position: Position, topic: str, now_ms: int
    ) -> None:
        """Record that the broker wrote an entry to a retry-letter or dead-letter topic."""
        self._note(event, consumer, *_span(position), now_ms, detail=topic)

    def moved(self, mark_delete: Position) -> None:
        """Forget the entries up to `mark_delete`, because the cursor was moved."""
        self._growing.clear()
        self._again.discard_before(Position(mark_delete.ledger_id, mark_delete.entry_id + 1))
        self._forget_sent_through(mark_delete)
        self._watch()

    def passed(self, position: Position) -> None:
        """Forget an entry that an operator acked."""
        self._again.discard(position)
        self._watch()

    def _watch(self) -> None:
        self.watches_acks = self._records_all or len(self._again) > 0
        self.watches_deliveries = self.watches_acks or (self.is_on and self._keeps_order)

    def _remember(
        self, consumer: StoryConsumer, positions: Sequence[Position], mark_delete: Position, now_ms: int
    ) -> None:
        sent = self._sent
        self._forget_sent_through(mark_delete)
        for _, ledger_id, first, last in _runs(positions, None):
            if len(sent) >= _MOST_SENT:
                del sent[0]
            sent.append(_Sent(consumer, ledger_id, first, last, now_ms))

    def _forget_sent_through(self, mark_delete: Position) -> None:
        sent, passed = self._sent, 0
        while passed < len(sent) and (sent[passed].ledger_id, sent[passed].last) <= mark_delete:
            passed += 1
        if passed:
            del sent[:passed]

    def _note(
        self,
        event: StoryEvent,
        consumer: StoryConsumer,
        ledger_id: int,
        first: int,
        last: int,
        at_ms: int,
        *,
        until_ms: int = 0,
        count: int = 0,
        detail: str = "",
    ) -> None:
        buffer = self._buffer
        if self._round != buffer.round:
            self._round, self._rows = buffer.round, 0
            self._growing.clear()
            self._left_out.clear()
        key = (event, consumer.key, count, detail)
        row = self._growing.get(key)
        until_ms = until_ms or at_ms
        if row is not None and row.ledger_id == ledger_id:
            if row.last_entry + 1 == first and last - row.first_entry < MOST_ENTRIES:
                row.last_entry, row.until_ms = last, until_ms
                row.events += last - first + 1
                return
            if event is StoryEvent.PARTLY_ACKED and row.first_entry == row.last_entry == first:
                row.until_ms = until_ms
                row.events += 1
                return
        for since in range(first, last + 1, MOST_ENTRIES):
            if self._rows >= MOST_ROWS or not buffer.has_room:
                self._leave_out(ledger_id, since, last, at_ms, until_ms)
                return
            row = self._row(event, ledger_id, since, min(last, since + MOST_ENTRIES - 1), at_ms, until_ms)
            row.redelivery_count, row.detail = count, detail
            row.consumer_name, row.consumer_address = consumer.name, consumer.address
            self._growing[key] = row
            self._rows += 1

    def _leave_out(
        self, ledger_id: int, first: int, last: int, at_ms: int, until_ms: int, *, events: int = 0
    ) -> None:
        """Count unrecorded events in one row for each ledger."""
        events = events or last - first + 1
        row = self._left_out.get(ledger_id)
        if row is None:
            row = self._row(StoryEvent.UNRECORDED, ledger_id, first, last, at_ms, until_ms)
            row.events = events
            self._left_out[ledger_id] = row
            return
        row.first_entry, row.last_entry = min(row.first_entry, first), max(row.last_entry, last)
        row.at_ms, row.until_ms = min(row.at_ms, at_ms), max(row.until_ms, until_ms)
        row.events += events

    def _row(
        self, event: StoryEvent, ledger_id: int, first: int, last: int, at_ms: int, until_ms: int
    ) -> StoryRow:
        row = StoryRow(
            subscription_id=self._id or 0,
            event=event,
            ledger_id=ledger_id,
            first_entry=first,
            last_entry=last,
            at_ms=at_ms,
            until_ms=until_ms,
            events=last - first + 1,
            redelivery_count=0,
            consumer_name="",
            consumer_address="",
            detail="",
            expires_ms=until_ms + self._keep_ms,
        )
        self._buffer.append(row)
        return row


def _of_consumers(sent: Iterable[_Sent], cursor: Cursor) -> Iterator[tuple[_Sent, int, int, int]]:
    runs = list(sent)
    at = 0
    for ledger_id, first, last in without_acked(cursor, ((r.ledger_id, r.first, r.last) for r in runs)):
        while (runs[at].ledger_id, runs[at].last) < (ledger_id, first):
            at += 1
        yield runs[at], ledger_id, first, last


def without_acked(cursor: Cursor, runs: Iterable[Range]) -> Iterator[Range]:
    """Yield ranges of the entries that are not fully acked. `runs` must be in ascending order."""
    mark_delete = cursor.mark_delete
    acked_runs = cursor.individually_acked(sys.maxsize) if cursor.has_individual_acks else iter(())
    acked = next(acked_runs, None)
    for ledger_id, first, last in runs:
        if (ledger_id, last) <= mark_delete:
            continue
        if ledger_id == mark_delete.ledger_id:
            first = max(first, mark_delete.entry_id + 1)
        while acked is not None and (acked[0], acked[2]) < (ledger_id, first):
            acked = next(acked_runs, None)
        while acked is not None and acked[0] == ledger_id and acked[1] <= last:
            if first < acked[1]:
                yield ledger_id, first, acked[1] - 1
            first = acked[2] + 1
            if first > last:
                break  # The acked range may reach into the next run
            acked = next(acked_runs, None)
        if first <= last:
            yield ledger_id, first, last


def _has_no_gap(entries: Sequence[StoryEntry]) -> bool:
    ledger_id, first = entries[0].position
    return entries[-1].position == (ledger_id, first + len(entries) - 1)


def _positions(ledger_id: int, first: int, last: int) -> Iterator[Position]:
    return (Position(ledger_id, entry_id) for entry_id in range(first, last + 1))


def _span(position: Position) -> tuple[int, int, int]:
    return position.ledger_id, position.entry_id, position.entry_id


def _runs(
    positions: Sequence[Position], count_of: Callable[[Position], int] | None
) -> Iterator[tuple[int, int, int, int]]:
    """Split ascending positions into runs of consecutive entries with equal redelivery counts.

    Yields (count, ledger_id, first, last).
    """
    if not positions:
        return
    ledger_id, first = positions[0]
    last_ledger, last = positions[-1]
    if count_of is None and last_ledger == ledger_id and last - first == len(positions) - 1:
        yield 0, ledger_id, first, last
        return
    count = 0 if count_of is None else count_of(positions[0])
    last = first
    for position in positions[1:]:
        each_count = 0 if count_of is None else count_of(position)
        if position == (ledger_id, last + 1) and each_count == count:
            last += 1
            continue
        yield count, ledger_id, first, last
        count, (ledger_id, first), last = each_count, position, position.entry_id
    yield count, ledger_id, first, last
