"""Screen entries that were read: decide whether to send each entry now, later or never."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.entry import FLAG_CORRUPT, FLAG_DELAYED, FLAG_MARKER
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.core.subscription.story_rows import StoryEvent
from broker.plugins import FilteredEntry, Verdict
from broker.subscription.machine.effects import Effect, Effects, KeepBack, LoadCounts, Say, Watch, Wish
from broker.subscription.machine.state import Discard, State, is_worth_a_line

if TYPE_CHECKING:
    from broker.core.cursor.cursor import Cursor
    from broker.core.dispatchers.base import ReadPlan
    from broker.core.entry import StoredEntry
    from broker.core.subscription.types import SubscriptionType
    from broker.plugins import EntryFilter

__all__ = ["SCREENED_FLAGS", "Delayed", "Screening"]

SCREENED_FLAGS: Final = FLAG_CORRUPT | FLAG_DELAYED | FLAG_MARKER
MAX_RESCHEDULED: Final = 10_000
_STORY_EVENTS: Final = {
    Discard.CORRUPT: StoryEvent.CORRUPT,
    Discard.MARKER: StoryEvent.MARKER,
    Discard.FILTER: StoryEvent.FILTERED,
}
_ERROR: Final = 40


class _Early(Enum):
    NOT_DUE = "not due"


class Delayed(Protocol):
    """The topic's delayed messages."""

    def passes_over(self, type_: SubscriptionType) -> bool:
        """Return whether reads by a subscription of this type must skip delayed entries now."""

    def next_ready(self, cursor: Cursor, position: Position) -> Position:
        """Return where to read next, at or after `position`. Call this only if `passes_over` returns True."""

    def is_early(self, entry: StoredEntry, type_: SubscriptionType, now_ms: int) -> bool:
        """Return whether it is too early to send this entry."""


class Screening:
    """Screens the entries that one subscription has read."""

    def __init__(
        self,
        state: State,
        delayed: Delayed,
        filters: Sequence[EntryFilter],
        *,
        topic_name: str,
        delay_ms: int,
    ) -> None:
        self._state = state
        self._delayed = delayed
        self._filters = filters
        self._topic_name = topic_name
        self._delay_ms = delay_ms
        self.is_pluggable = bool(filters)

    def screen(
        self, found: Sequence[StoredEntry], plan: ReadPlan, now_ms: int
    ) -> tuple[list[StoredEntry] | None, Effects]:
        """Return the entries to send, and the effects to carry out.

        None instead of a list means that the caller must carry out the effects and then read again.
        """
        effects: list[Effect] = []
        kept: list[StoredEntry] = []
        discarded: list[tuple[StoredEntry, Discard]] = []
        later: list[StoredEntry] = []
        early: list[StoredEntry] = []
        for entry in found:
            fate = self._fate(entry, now_ms, effects)
            if fate is Verdict.ACCEPT:
                kept.append(entry)
            elif isinstance(fate, Discard):
                discarded.append((entry, fate))
            elif fate is _Early.NOT_DUE:
                early.append(entry)
            else:
                later.append(entry)
                if self._stops_everything(len(later)):
                    break
        missing = self._ack(discarded, found[0], plan, now_ms, effects)
        if missing is not None:
            effects.append(LoadCounts(missing.ranges))
            return None, effects
        if early:
            for entry in early:
                self._state.dispatcher.postpone(Position(entry.ledger_id, entry.entry_id))
            effects.append(KeepBack(early))
        if later:
            effects.append(self._reschedule(later, plan, now_ms))
        return kept, effects

    def _fate(self, entry: StoredEntry, now_ms: int, effects: list[Effect]) -> Verdict | Discard | _Early:
        if entry.flags & FLAG_CORRUPT:
            return Discard.CORRUPT
        if entry.flags & FLAG_MARKER:
            return Discard.MARKER
        if entry.flags & FLAG_DELAYED and self._delayed.is_early(entry, self._state.type, now_ms):
            return _Early.NOT_DUE
        return self._ask(entry, effects) if self._filters else Verdict.ACCEPT

    def _ask(self, entry: StoredEntry, effects: list[Effect]) -> Verdict | Discard:
        state = self._state
        position = Position(entry.ledger_id, entry.entry_id)
        shown = FilteredEntry(
            topic=self._topic_name,
            subscription=state.name,
            subscription_type=state.type.value,
            ledger_id=entry.ledger_id,
            entry_id=entry.entry_id,
            messages=entry.messages,
            append_ms=entry.append_ms,
            redelivery_count=state.dispatcher.redelivery_count(position),
            data=entry.data,
        )
        for each in self._filters:
            try:
                verdict = Verdict(each.verdict(shown))
            except Exception as error:  # A faulty filter must not cause the loss of a message
                counters = state.counters
                counters.filter_errors += 1
                if is_worth_a_line(counters.filter_errors):
                    text = "filter %s failed on %s and is asked again (%s failures so far)"
                    values = (type(each).__name__, position, counters.filter_errors)
                    effects.append(Say(_ERROR, text, values, error))
                return Verdict.RESCHEDULE
            if verdict is Verdict.REJECT:
                return Discard.FILTER
            if verdict is Verdict.RESCHEDULE:
                return verdict
        return Verdict.ACCEPT

    # -- acked by the broker -------------------------------------------------------------------------------------

    def _ack(
        self,
        discarded: Sequence[tuple[StoredEntry, Discard]],
        first: StoredEntry,
        plan: ReadPlan,
        now_ms: int,
        effects: list[Effect],
    ) -> IndexMissing | None:
        state = self._state
        for entry, reason in discarded:
            position = Position(entry.ledger_id, entry.entry_id)
            try:
                result = state.cursor.ack(position)
            except IndexMissing as missing:
                if not plan.positions:
                    state.read_position = Position(first.ledger_id, first.entry_id)
                return missing
            if not result.messages:
                continue
            state.dispatcher.discard(position)
            state.forget_deadlines([position])
            state.counters.discarded[reason] += result.messages
            if state.story.is_on:
                state.story.discarded(_STORY_EVENTS[reason], position, now_ms)
            if reason is Discard.CORRUPT:
                self._report_damage(position, effects)
        if discarded and state.is_durable:
            effects.append(Wish.DIRTY)
        return None

    def _report_damage(self, position: Position, effects: list[Effect]) -> None:
        counters = self._state.counters
        counters.damaged_entries += 1
        if is_worth_a_line(counters.damaged_entries):
            text = (
                "entry %s is damaged, its checksum or metadata is wrong; it is acked and not delivered"
                " (%s entries so far)"
            )
            effects.append(Say(_ERROR, text, (position, counters.damaged_entries)))

    # -- rescheduled by a filter ---------------------------------------------------------------------------------

    def _stops_everything(self, later: int) -> bool:
        if self._state.dispatcher.replays_unassigned:
            return len(self._state.rescheduled) + later > MAX_RESCHEDULED
        return True

    def _reschedule(self, entries: Sequence[StoredEntry], plan: ReadPlan, now_ms: int) -> Watch:
        state = self._state
        state.counters.reschedules += len(entries)
        due_ms = now_ms + self._delay_ms
        if self._stops_everything(len(entries)):
            last = entries[-1]
            entries = entries[:-1]
            state.waits_for_filter_until_ms = due_ms
            if not plan.positions:
                state.read_position = Position(last.ledger_id, last.entry_id)
        for entry in entries:
            position = Position(entry.ledger_id, entry.entry_id)
            state.dispatcher.postpone(position)
            state.rescheduled.schedule(position, due_ms)
        return Watch(due_ms)
