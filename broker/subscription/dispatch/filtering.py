"""What is read but not sent: the step between a subscription's read and its dispatcher (semantics S1.2-S1.7).

Only entries that carry a flag come here, or all of them where filters are configured; the rest cost their read loop one
`|=`. What nobody shall get is acked by the broker for this subscription: no permit, no pending ack, a counter.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker.core.entry import FLAG_CORRUPT, FLAG_DELAYED, FLAG_MARKER
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.plugins import FilteredEntry, Verdict
from vela.wire.timing_wheel import TimingWheel

if TYPE_CHECKING:
    from broker.core.dispatchers.base import ReadPlan
    from broker.core.entry import StoredEntry
    from broker.subscription.subscription import Subscription

__all__ = ["SCREENED_FLAGS", "Discard", "DispatchFilter"]

log = logging.getLogger(__name__)

SCREENED_FLAGS: Final = FLAG_CORRUPT | FLAG_DELAYED | FLAG_MARKER
MAX_RESCHEDULED: Final = 10_000  # entries waiting for a filter; beyond it the subscription waits with them
_WHEEL_TICK_MS: Final = 32


class Discard(Enum):
    """Why the broker acked an entry that it did not send."""

    CORRUPT = "corrupt"
    MARKER = "marker"
    FILTER = "filter"


class _Early(Enum):
    """What waits for its time is passed over by the read position; this one was met all the same."""

    NOT_DUE = "not due"


class DispatchFilter:
    """One subscription's. `discarded` counts messages by reason, since the topic came into memory."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._filters = subscription.topic.services.entry_filters
        self._delay_ms = subscription.topic.services.settings.filter_reschedule_ms
        self._rescheduled: TimingWheel[Position] = TimingWheel(tick_ms=_WHEEL_TICK_MS)
        self._held_until_ms = 0
        self.is_pluggable = bool(self._filters)
        self.discarded = dict.fromkeys(Discard, 0)
        self.rescheduled_total = 0  # verdicts, not entries
        self.filter_errors = 0
        self._damaged_entries = 0

    @property
    def is_holding(self) -> bool:
        """An entry waits for a filter and everything behind it with it."""
        return self._held_until_ms > 0

    def screen(self, found: Sequence[StoredEntry], plan: ReadPlan) -> list[StoredEntry] | None:
        """What of `found` is to be sent, in order. None: counts had to be loaded first; it is read again then."""
        kept: list[StoredEntry] = []
        discarded: list[tuple[StoredEntry, Discard]] = []
        later: list[StoredEntry] = []
        early: list[StoredEntry] = []
        for entry in found:
            fate = self._fate(entry)
            if fate is Verdict.ACCEPT:
                kept.append(entry)
            elif isinstance(fate, Discard):
                discarded.append((entry, fate))
            elif fate is _Early.NOT_DUE:
                early.append(entry)
            else:
                later.append(entry)
                if self._holds_the_line(len(later)):
                    break
        if not self._ack(discarded, found[0], plan):
            return None
        for entry in early:
            self._subscription.dispatcher.postpone(Position(entry.ledger_id, entry.entry_id))
            self._subscription.topic.delayed.keep_back(entry)
        self._reschedule(later, plan)
        return kept

    def _fate(self, entry: StoredEntry) -> Verdict | Discard | _Early:
        subscription = self._subscription
        if entry.flags & FLAG_CORRUPT:
            return Discard.CORRUPT
        if entry.flags & FLAG_MARKER:
            return Discard.MARKER
        if entry.flags & FLAG_DELAYED and subscription.topic.delayed.is_early(entry, subscription.type):
            return _Early.NOT_DUE
        return self._ask(entry) if self._filters else Verdict.ACCEPT

    def _ask(self, entry: StoredEntry) -> Verdict | Discard:
        subscription = self._subscription
        shown = FilteredEntry(
            topic=subscription.topic.name.full,
            subscription=subscription.name,
            subscription_type=subscription.type.value,
            ledger_id=entry.ledger_id,
            entry_id=entry.entry_id,
            messages=entry.messages,
            append_ms=entry.append_ms,
            redelivery_count=subscription.dispatcher.redelivery_count(
                Position(entry.ledger_id, entry.entry_id)
            ),
            data=entry.data,
        )
        for each in self._filters:
            try:
                verdict = Verdict(each.verdict(shown))
            except Exception:  # a fault in a project's filter must lose no message
                self.filter_errors += 1
                if _is_worth_a_line(self.filter_errors):
                    log.exception(
                        "%s, subscription %s: filter %s failed on %s:%s and is asked again (%s failures so far)",
                        subscription.topic.name,
                        subscription.name,
                        type(each).__name__,
                        entry.ledger_id,
                        entry.entry_id,
                        self.filter_errors,
                    )
                return Verdict.RESCHEDULE
            if verdict is Verdict.REJECT:
                return Discard.FILTER
            if verdict is Verdict.RESCHEDULE:
                return verdict
        return Verdict.ACCEPT

    # -- acked by the broker -------------------------------------------------------------------------------------

    def _ack(
        self, discarded: Sequence[tuple[StoredEntry, Discard]], first: StoredEntry, plan: ReadPlan
    ) -> bool:
        """Ack what nobody shall get; False after starting to load the counts this needs."""
        subscription = self._subscription
        for entry, reason in discarded:
            position = Position(entry.ledger_id, entry.entry_id)
            try:
                result = subscription.cursor.ack(position)
            except IndexMissing as missing:
                if not plan.positions:
                    subscription.read_position = Position(first.ledger_id, first.entry_id)
                subscription.load_counts_then_pump(missing)
                return False
            if not result.messages:
                continue
            subscription.forget(position)
            self.discarded[reason] += result.messages
            if reason is Discard.CORRUPT:
                self._report_damage(position)
        if discarded and subscription.is_durable:
            subscription.topic.services.flusher.mark(subscription)
        return True

    def _report_damage(self, position: Position) -> None:
        self._damaged_entries += 1
        if _is_worth_a_line(self._damaged_entries):
            log.error(
                "%s, subscription %s: entry %s is damaged, its checksum or metadata is wrong; it is acked and not"
                " delivered (%s entries so far)",
                self._subscription.topic.name,
                self._subscription.name,
                position,
                self._damaged_entries,
            )

    # -- asked about again ---------------------------------------------------------------------------------------

    def _holds_the_line(self, later: int) -> bool:
        """Where order is kept nothing overtakes; on Shared so many may be passed over."""
        if self._subscription.dispatcher.replays_unassigned:
            return len(self._rescheduled) + later > MAX_RESCHEDULED
        return True

    def _reschedule(self, entries: Sequence[StoredEntry], plan: ReadPlan) -> None:
        if not entries:
            return
        subscription = self._subscription
        services = subscription.topic.services
        self.rescheduled_total += len(entries)
        due_ms = services.clock.now_ms() + self._delay_ms
        if self._holds_the_line(len(entries)):
            last = entries[-1]
            entries = entries[:-1]
            self._held_until_ms = due_ms
            if not plan.positions:
                subscription.read_position = Position(last.ledger_id, last.entry_id)
        for entry in entries:
            position = Position(entry.ledger_id, entry.entry_id)
            subscription.dispatcher.postpone(position)
            self._rescheduled.schedule(position, due_ms)
        services.deadlines.watch(subscription, due_ms)

    def next_due_ms(self) -> int | None:
        """When something is to be asked about again; None = nothing waits."""
        due_ms = self._rescheduled.next_due_ms()
        if self._held_until_ms and (due_ms is None or self._held_until_ms < due_ms):
            return self._held_until_ms
        return due_ms

    def release_due(self, now_ms: int) -> int:
        """Let what is due be read again; how many entries. Running it twice does no harm."""
        due = self._rescheduled.pop_due(now_ms)
        if due:
            self._subscription.replay(due)
        if self._held_until_ms and self._held_until_ms <= now_ms:
            self._held_until_ms = 0
            self._subscription.pump()
            return len(due) + 1
        return len(due)

    def forget(self) -> None:
        """Everything is read again from mark-delete on."""
        self._held_until_ms = 0
        if len(self._rescheduled):
            self._rescheduled = TimingWheel(tick_ms=_WHEEL_TICK_MS)


def _is_worth_a_line(count: int) -> bool:
    return count & (count - 1) == 0
