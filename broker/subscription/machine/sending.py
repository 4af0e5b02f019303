"""Decide which entries to send next, and to which consumers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.dispatchers.base import Assignment, ReadKind, ReadPlan
from broker.core.position import Position
from broker.subscription.machine.effects import (
    Batch,
    Deliver,
    Effect,
    Effects,
    ReadAhead,
    ReadChosen,
    ReadCompacted,
    SendLater,
    Watch,
)
from broker.subscription.machine.read_entries import FoundEntry, read_entries, whole_entries
from broker.subscription.machine.screening import SCREENED_FLAGS
from broker.subscription.requests import Delivery

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.ledgers.ledger import LedgerMap
    from broker.subscription.machine.screening import Delayed, Screening
    from broker.subscription.machine.state import Compacted, Member, State

__all__ = ["WRITE_BYTES", "Sending"]

# When a batch of deliveries has reached this size, no more entries are added.
WRITE_BYTES: Final = 1024 * 1024


class CompactedPage(Protocol):
    """All entries that compaction kept in a range of positions. The range does not include `end`."""

    @property
    def first(self) -> Position: ...
    @property
    def entries(self) -> Sequence[StoredEntry]: ...
    @property
    def end(self) -> Position: ...


class Sending:
    """Decides what one subscription sends next.

    The argument `cached` holds the entries in memory, by ledger id and entry id. The argument `read_entries` is the
    maximum number of entries in one read.
    """

    def __init__(
        self,
        state: State,
        screening: Screening,
        compacted: Compacted,
        *,
        ledgers: LedgerMap,
        cached: Mapping[int, Mapping[int, StoredEntry]],
        delayed: Delayed,
        read_entries: int,
    ) -> None:
        self._read_entries = read_entries
        self._state = state
        self._screening = screening
        self._compacted = compacted
        self._page: CompactedPage | None = None
        self._ledgers = ledgers
        self._cached = cached
        self._delayed = delayed
        self._just_read: dict[tuple[int, int], StoredEntry] = {}
        self._found_bytes = 0
        self._found_flags = 0
        self._found_trimmed = False

    def compacted_read(self, page: CompactedPage) -> None:
        """Keep a page that was read from the compacted topic."""
        self._page = page

    def entries_read(self, entries: Sequence[StoredEntry]) -> None:
        """Keep the entries of a read until `forget_read` is called. The cache may be too small for these entries."""
        self._just_read = {entry[:2]: entry for entry in entries}

    def forget_read(self) -> None:
        """Forget the entries of the last read."""
        self._just_read = {}

    def next_batch(self, now_ms: int) -> Batch | None:
        """Return the next batch of deliveries, if any. Check `State.may_send` before a series of calls."""
        state = self._state
        most: int | None = None
        if state.limit is not None:
            if wait_ms := state.limit.wait_ms(now_ms):
                return _stop((SendLater(wait_ms),))
            most = state.limit.entries(now_ms)
        plan = state.dispatcher.next_read()
        if plan is None:
            return None
        found: list[StoredEntry] = []
        self._found_trimmed = False
        wanted = (
            self._replay(plan, found, most) if plan.kind is ReadKind.REPLAY else self._read(plan, found, most)
        )
        if wanted is not None:
            return _stop(wanted) if wanted else None
        return self._give_out(found, plan, now_ms)

    # -- finding -------------------------------------------------------------------------------------------------

    def _read(self, plan: ReadPlan, found: list[StoredEntry], most: int | None) -> Effects | None:
        """Add entries from memory to `found`. If there are none in memory, return the effects to carry out."""
        if self._compacted.horizon is not None and self._state.reads_compacted:
            wanted = self._read_compacted(self._compacted.horizon, plan, found, most)
            if found or wanted is not None:
                return wanted
        state, ledgers, cached = self._state, self._ledgers, self._cached
        passes_over = self._delayed.passes_over(state.type)
        next_wanted = (
            partial(self._delayed.next_ready, state.cursor) if passes_over else state.cursor.next_unacked
        )
        position = next_wanted(state.read_position)
        may_be_acked = passes_over or position <= state.cursor.last_acked
        size_bytes = flags = 0
        most = plan.max_entries if most is None else min(plan.max_entries, most)
        while len(found) < most and size_bytes < WRITE_BYTES:
            ledger_id, entry_id = position
            ledger = ledgers.get(ledger_id)
            if ledger is None or entry_id >= ledger.entries:
                break
            entries = cached.get(ledger_id)
            entry = None if entries is None else entries.get(entry_id)
            if entry is None and (entry := self._just_read.get(position)) is None:
                break
            found.append(entry)
            size_bytes += len(entry.data)
            flags |= entry.flags
            entry_id += 1
            position = (
                Position(ledger_id, entry_id) if entry_id < ledger.entries else ledgers.next_after(position)
            )
            if may_be_acked:
                position = next_wanted(position)
        state.read_position = position
        self._found_bytes, self._found_flags = size_bytes, flags
        if found:
            return None
        return (ReadAhead(position),) if ledgers.contains(position) else state.end_of_topic()

    def _read_compacted(
        self, horizon: Position, plan: ReadPlan, found: list[StoredEntry], most: int | None
    ) -> Effects | None:
        """Add entries from the compacted topic to `found`.

        Never add both trimmed and untrimmed entries. The cursor has no acks of trimmed entries, and `_give_out` looks
        up partial acks for all entries of `found` or for none.
        """
        state, ledgers = self._state, self._ledgers
        most = plan.max_entries if most is None else min(plan.max_entries, most)
        size_bytes = flags = 0
        position = state.read_position
        page, self._page = self._page, None
        if position > horizon:
            return None
        if page is None or not page.first <= position < page.end:
            return (ReadCompacted(position),)
        for entry in page.entries[bisect_left(page.entries, position, key=_position_of) :]:
            position = _position_of(entry)
            is_trimmed = not ledgers.contains(position)
            if (
                len(found) >= most
                or size_bytes >= WRITE_BYTES
                or (found and is_trimmed != self._found_trimmed)
            ):
                break
            if is_trimmed or not state.cursor.is_acked(position):
                found.append(entry)
                size_bytes += len(entry.data)
                flags |= entry.flags
                self._found_trimmed = is_trimmed
        else:
            position = page.end
        if position < page.end:
            self._page = page
        state.read_position = position
        self._found_bytes, self._found_flags = size_bytes, flags
        return None if found or position > horizon else (ReadCompacted(position),)

    def _replay(self, plan: ReadPlan, found: list[StoredEntry], most: int | None) -> Effects | None:
        size_bytes = flags = 0
        for position in plan.positions if most is None else plan.positions[:most]:
            entries = self._cached.get(position.ledger_id)
            entry = None if entries is None else entries.get(position.entry_id)
            if entry is None:
                entry = self._just_read.get(position)
            if entry is not None:
                found.append(entry)
                size_bytes += len(entry.data)
                flags |= entry.flags
                if size_bytes >= WRITE_BYTES:
                    break
            elif not self._ledgers.contains(position):
                self._state.dispatcher.discard(position)
            elif found:
                break  # Later entries must not overtake this entry
            else:
                # Also read the entries of later plans, because thousands of delayed messages may become due at once.
                upcoming = self._state.dispatcher.upcoming_replays(self._read_entries - len(plan.positions))
                return (ReadChosen([*plan.positions, *upcoming]),)
        self._found_bytes, self._found_flags = size_bytes, flags
        return None

    # -- assigning -----------------------------------------------------------------------------------------------

    def _give_out(self, found: list[StoredEntry], plan: ReadPlan, now_ms: int) -> Batch:
        state = self._state
        entries = found
        effects: list[Effect] = []
        if found and (self._found_flags & SCREENED_FLAGS or self._screening.is_pluggable):
            kept, said = self._screening.screen(found, plan, now_ms)
            effects += said
            if kept is None:
                return _stop(effects)
            entries = kept
        cursor, dispatcher, story = state.cursor, state.dispatcher, state.story
        has_partial_acks = cursor.has_partial_acks and not self._found_trimmed
        costs = (
            read_entries(entries, cursor, state.type)
            if has_partial_acks
            else whole_entries(entries, state.type)
        )
        assignments, unassigned = dispatcher.assign(costs, plan, now_ms)
        if unassigned and not dispatcher.replays_unassigned:
            state.read_position = unassigned[0].position
        has_counts = len(state.counts) > 0
        deliveries: list[Deliver] = []
        for assignment in assignments:
            member = state.members[assignment.consumer.key]
            if member.request.ack_timeout_ms:
                effects += self._time_out(member, assignment, now_ms)
            if story.watches_deliveries:
                story.delivered(member, assignment.entries, state.counts, cursor, now_ms)
            deliveries.append(
                Deliver(
                    member.key,
                    [
                        Delivery(
                            each.entry,
                            dispatcher.redelivery_count(each.position) if has_counts else 0,
                            cursor.remaining_of(each.position) if has_partial_acks else None,
                        )
                        for each in assignment.entries
                    ],
                )
            )
        is_first = bool(deliveries) and plan.kind is not ReadKind.REPLAY
        return Batch(
            deliveries,
            effects,
            len(found),
            self._found_bytes,
            entries[0].append_ms if is_first else 0,
            not state.waits_for_filter_until_ms,
        )

    def _time_out(self, member: Member, assignment: Assignment[FoundEntry], now_ms: int) -> Effects:
        request, state = member.request, self._state
        tick_ms, backoff_ms = request.ack_timeout_tick_ms, request.ack_timeout_backoff
        timeout_at_ms = now_ms + request.ack_timeout_ms
        dues = []
        for each in assignment.entries:
            due_ms = timeout_at_ms
            if backoff_ms is not None:
                due_ms += backoff_ms(state.dispatcher.redelivery_count(each.position))
            due_ms = -(-due_ms // tick_ms) * tick_ms
            state.deadlines.time_out(each.position, due_ms)
            dues.append(due_ms)
        return (Watch(min(dues)),) if dues else ()


def _position_of(entry: StoredEntry) -> Position:
    return Position(entry.ledger_id, entry.entry_id)


def _stop(effects: Effects) -> Batch:
    return Batch((), effects, 0, 0, 0, False)
