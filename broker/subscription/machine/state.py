"""The state of one subscription: its cursor, its consumers, its deliveries and its counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.position import Position
from broker.core.subscription.ack_latencies import AckLatencies
from broker.core.subscription.delivery_deadlines import DeliveryDeadlines
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.subscription.machine.effects import Effects, TellEnd
from vela.wire.timing_wheel import TimingWheel

if TYPE_CHECKING:
    from broker.core.cursor.cursor import Cursor
    from broker.core.dispatchers.base import DispatchConsumer, Dispatcher
    from broker.core.subscription.story import DeliveryStory
    from broker.core.subscription.types import SubscriptionType
    from broker.subscription.machine.rates import DispatchLimit
    from broker.subscription.requests import SubscribeRequest

__all__ = ["Compacted", "Counters", "Discard", "Member", "State", "is_worth_a_line"]

_RESCHEDULE_TICK_MS: Final = 32


class Discard(Enum):
    """The reasons for which screening acks an entry instead of passing it on."""

    CORRUPT = "corrupt"
    MARKER = "marker"
    FILTER = "filter"


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counts of one subscription since the topic was loaded; in messages, unless the name says otherwise.

    Only `ack_latencies` is reset, each time a point for the charts is taken.
    """

    messages_out: int = 0
    messages_acked: int = 0
    messages_redelivered: int = 0
    messages_expired: int = 0
    invalid_acks: int = 0
    ignored_acks: int = 0
    # Number of ack commands for each reason that clients gave for discarding messages.
    validation_errors: dict[str, int] = field(default_factory=dict)
    option_warnings: dict[str, int] = field(default_factory=dict)  # number of consumers for each warning
    discarded: dict[Discard, int] = field(default_factory=lambda: dict.fromkeys(Discard, 0))
    damaged_entries: int = 0
    filter_errors: int = 0
    reschedules: int = 0  # number of times that filters rescheduled an entry
    ack_latencies: AckLatencies = field(default_factory=AckLatencies)


class Compacted(Protocol):
    """The compaction of the topic."""

    @property
    def horizon(self) -> Position | None:
        """The last position that compaction covers; None = readers get only the log."""


class Member:
    """A subscription's state and counts for one attached consumer."""

    def __init__(
        self, dispatch: DispatchConsumer, request: SubscribeRequest, now_ms: int, *, address: str = ""
    ) -> None:
        self.key = dispatch.key
        self.name = dispatch.name
        self.address = address  # "ip:port" of its client
        self.dispatch = dispatch
        self.request = request
        self.connected_ms = now_ms
        self.was_told_end = False  # whether the client was told that the terminated topic has ended
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_acked = 0
        self.messages_redelivered = 0
        self.entries_out = 0
        self.first_flow_ms = 0  # 0 = never, here and in the next four lines
        self.last_flow_ms = 0
        self.first_delivery_ms = 0
        self.last_delivery_ms = 0
        self.last_ack_ms = 0

    def flowed(self, now_ms: int) -> None:
        """Note when the client granted permits."""
        self.first_flow_ms = self.first_flow_ms or now_ms
        self.last_flow_ms = now_ms


class State:
    """The state of one subscription, with the few methods that several parts of the machine share."""

    def __init__(
        self,
        *,
        name: str,
        is_durable: bool,
        type_: SubscriptionType,
        cursor: Cursor,
        dispatcher: Dispatcher,
        counts: RedeliveryCounts,
        story: DeliveryStory,
        compacted: Compacted,
        is_terminated: bool,
        now_ms: int,
    ) -> None:
        self.name = name
        self.is_durable = is_durable  # whether its cursor is stored
        self.type = type_
        self.stored_type: SubscriptionType | None = type_  # None = not known; not used for a reader's cursor
        self.cursor = cursor
        self.dispatcher = dispatcher
        self.counts = counts  # redelivery counts, which all its Shared and Key_Shared dispatchers use
        self.story = story
        story.use_type(keeps_order=type_.single_active)
        self.members: dict[int, Member] = {}
        self._compacted = compacted
        # Set by `begin_at`: the mark-delete position at that time, and the place.
        self.unstored_place: tuple[Position, Position] | None = None
        self.read_position = cursor.read_from()
        # When a consumer's ack last moved the mark-delete position; 0 = never since the topic was loaded.
        self.advanced_ms = 0
        self.deadlines = DeliveryDeadlines()
        # Entries that a filter rescheduled, until they are due.
        self.rescheduled: TimingWheel[Position] = TimingWheel(tick_ms=_RESCHEDULE_TICK_MS)
        # Nothing is sent until this time, because no entry may overtake one that a filter rescheduled, or because
        # filters have rescheduled too many. 0 = no wait.
        self.waits_for_filter_until_ms = 0
        self.limit: DispatchLimit | None = None  # dispatch rates
        self.counters = Counters()
        self.gap = ""  # what is missing from the log, or ""; if it is not "", nothing is sent until the cursor is moved
        self.is_terminated = is_terminated  # the topic accepts no more messages
        self.is_paused = False  # whether an operator stopped dispatch; acks still apply
        self.is_deleted = False
        self.is_moving = False  # while the cursor moves, nothing is dispatched, and acks wait or are refused
        self.ignores_acks = False  # whether acks are refused until the move ends
        self.rewinds = 0  # number of calls of `rewind`
        # Number of moves that forgot which entries are pending. An ack from before such a move is not applied after it.
        self.resets = 0
        self.stored_mark_delete = cursor.mark_delete  # a crash would return the cursor to this position
        self.undo_act_id = 0  # the latest act that has or had an undo window; 0 = none
        self.undo_until_ms = 0  # end of that window; 0 = no act, or the window is over
        # When a consumer last left. Until one leaves: the stored time, or the time of loading if no time is stored.
        self.last_used_ms = now_ms

    @property
    def may_send(self) -> bool:
        """Whether anything at all may be dispatched."""
        return (
            bool(self.members)
            and not self.is_moving
            and not self.waits_for_filter_until_ms
            and not self.is_paused
            and not self.gap
        )

    @property
    def reads_compacted(self) -> bool:
        """Whether the topic is compacted and the active consumer asked to read what compaction kept."""
        if self._compacted.horizon is None:
            return False
        active = self.dispatcher.active
        member = None if active is None else self.members.get(active.key)
        return member is not None and member.request.read_compacted

    def begin_at(self, position: Position) -> None:
        """Remember the position at which the cursor begins, even if the entry there is already trimmed.

        The cursor cannot store such a position, only "before the first stored entry". But a reader of the compacted
        topic may still get entries from that position on.
        """
        self.unstored_place = (self.cursor.mark_delete, position)

    def place(self) -> Position:
        """Return the position after mark-delete, or that of `begin_at` if mark-delete has not moved since that call."""
        mark_delete = self.cursor.mark_delete
        if self.unstored_place is not None and self.unstored_place[0] == mark_delete:
            return self.unstored_place[1]
        if mark_delete.entry_id < 0:
            return Position(0, 0)
        return Position(mark_delete.ledger_id, mark_delete.entry_id + 1)

    def read_start(self) -> Position:
        """Return where reading begins when every unacked entry must be delivered again."""
        start = self.cursor.read_from()
        return max(Position(0, 0), min(start, self.place())) if self.reads_compacted else start

    def rewind(self) -> None:
        """Read again from `read_start()`, so that every unacked entry is delivered again. Cancel all deadlines."""
        self.forget_all_deadlines()
        self.rewinds += 1
        self.read_position = self.read_start()

    def forget_deadlines(self, positions: Iterable[Position]) -> None:
        """Cancel the deadlines of deliveries that are over."""
        if len(self.deadlines):
            for position in positions:
                self.deadlines.cancel(position)

    def forget_all_deadlines(self) -> None:
        """Cancel all deadlines and reschedules, because everything after mark-delete is read again."""
        self.waits_for_filter_until_ms = 0
        if len(self.rescheduled):
            self.rescheduled = TimingWheel(tick_ms=_RESCHEDULE_TICK_MS)
        if len(self.deadlines):
            self.deadlines.cancel_all()

    def end_of_topic(self) -> Effects:
        """Return the effect that tells consumers that a terminated topic has ended, once everything is acked.

        A consumer that has granted no permits yet is told after it grants some, because its client may not know yet
        that the consumer is attached. A reader of a compacted topic is told after it was sent all that compaction kept:
        trimmed entries are not in the backlog.
        """
        if not self.is_terminated or self.cursor.backlog_messages or self._has_kept_entries_to_send():
            return ()
        told = [each for each in self.members.values() if each.last_flow_ms and not each.was_told_end]
        for each in told:
            each.was_told_end = True
        return (TellEnd([each.key for each in told]),) if told else ()

    def _has_kept_entries_to_send(self) -> bool:
        horizon = self._compacted.horizon
        return horizon is not None and self.reads_compacted and self.read_position <= horizon


def is_worth_a_line(count: int) -> bool:
    """Return whether to log an event the `count`-th time. True for 1, 2, 4, 8 …: no client may flood the log."""
    return count & (count - 1) == 0
