"""The cursor, consumers, deliveries and counters of one subscription."""

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
    """The reasons for acking an entry without delivering it."""

    CORRUPT = "corrupt"
    MARKER = "marker"
    FILTER = "filter"


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counts of one subscription since the topic was loaded."""

    messages_out: int = 0
    messages_acked: int = 0
    messages_redelivered: int = 0
    messages_expired: int = 0
    invalid_acks: int = 0
    ignored_acks: int = 0
    validation_errors: dict[str, int] = field(default_factory=dict)
    option_warnings: dict[str, int] = field(default_factory=dict)
    discarded: dict[Discard, int] = field(default_factory=lambda: dict.fromkeys(Discard, 0))
    damaged_entries: int = 0
    filter_errors: int = 0
    reschedules: int = 0
    # Ack latencies since the last data point for the console's charts
    ack_latencies: AckLatencies = field(default_factory=AckLatencies)


class Compacted(Protocol):
    """The state of the topic's compaction."""

    @property
    def horizon(self) -> Position | None:
        """The last position that compaction covers, if any."""


class Member:
    """The state and counts of one attached consumer."""

    def __init__(
        self, dispatch: DispatchConsumer, request: SubscribeRequest, now_ms: int, *, address: str = ""
    ) -> None:
        self.key = dispatch.key
        self.name = dispatch.name
        self.address = address
        self.dispatch = dispatch
        self.request = request
        self.connected_ms = now_ms
        self.was_told_end = False
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_acked = 0
        self.messages_redelivered = 0
        self.entries_out = 0
        # In the next five lines, 0 means never.
        self.first_flow_ms = 0
        self.last_flow_ms = 0
        self.first_delivery_ms = 0
        self.last_delivery_ms = 0
        self.last_ack_ms = 0

    def flowed(self, now_ms: int) -> None:
        """Record that the client granted permits at `now_ms`."""
        self.first_flow_ms = self.first_flow_ms or now_ms
        self.last_flow_ms = now_ms


class State:
    """The state of one subscription, shared by the parts of `SubscriptionMachine`."""

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
        self.is_durable = is_durable
        self.type = type_
        self.stored_type: SubscriptionType | None = type_
        self.cursor = cursor
        self.dispatcher = dispatcher
        self.counts = counts
        self.story = story
        story.use_type(keeps_order=type_.single_active)
        self.members: dict[int, Member] = {}
        self._compacted = compacted
        # `begin_at` stores the current mark-delete position and the requested position here.
        self.unstored_place: tuple[Position, Position] | None = None
        self.read_position = cursor.read_from()
        # Time of the last ack that moved mark-delete. 0 means none.
        self.advanced_ms = 0
        self.deadlines = DeliveryDeadlines()
        self.rescheduled: TimingWheel[Position] = TimingWheel(tick_ms=_RESCHEDULE_TICK_MS)
        # Nothing is sent until this time, because a filter has rescheduled an entry. 0 means no wait.
        self.waits_for_filter_until_ms = 0
        self.limit: DispatchLimit | None = None
        self.counters = Counters()
        # Describes a gap in the log. While this text is not empty, nothing is sent. A cursor move clears the text.
        self.gap = ""
        self.is_terminated = is_terminated
        self.is_paused = False
        self.is_deleted = False
        # During a cursor move, acks wait. If `ignores_acks` is set, acks are refused instead.
        self.is_moving = False
        self.ignores_acks = False
        self.rewinds = 0
        # Number of cursor resets. An ack that arrived before a reset is not applied after the reset.
        self.resets = 0
        self.stored_mark_delete = cursor.mark_delete
        self.undo_act_id = 0  # Id of the last act with an undo window; 0 means none
        self.undo_until_ms = 0  # The act can be undone until this time; 0 means no undo is possible
        # Time when a consumer last left. If that is unknown, the time when the topic was loaded.
        self.last_used_ms = now_ms

    @property
    def may_send(self) -> bool:
        """Whether entries may be dispatched."""
        return (
            bool(self.members)
            and not self.is_moving
            and not self.waits_for_filter_until_ms
            and not self.is_paused
            and not self.gap
        )

    @property
    def reads_compacted(self) -> bool:
        """Whether the active consumer reads the compacted topic."""
        if self._compacted.horizon is None:
            return False
        active = self.dispatcher.active
        member = None if active is None else self.members.get(active.key)
        return member is not None and member.request.read_compacted

    def begin_at(self, position: Position) -> None:
        """Remember the requested position of the cursor.

        A reader of the compacted topic may ask for a trimmed entry, but the cursor cannot store that entry's position.
        """
        self.unstored_place = (self.cursor.mark_delete, position)

    def place(self) -> Position:
        """Return the position after mark-delete.

        If mark-delete has not moved since `begin_at`, return the position given to `begin_at` instead.
        """
        mark_delete = self.cursor.mark_delete
        if self.unstored_place is not None and self.unstored_place[0] == mark_delete:
            return self.unstored_place[1]
        if mark_delete.entry_id < 0:
            return Position(0, 0)
        return Position(mark_delete.ledger_id, mark_delete.entry_id + 1)

    def read_start(self) -> Position:
        """Return the position at which a read of all unacked entries must start."""
        start = self.cursor.read_from()
        return max(Position(0, 0), min(start, self.place())) if self.reads_compacted else start

    def rewind(self) -> None:
        """Cancel all deadlines, and read every unacked entry again."""
        self.forget_all_deadlines()
        self.rewinds += 1
        self.read_position = self.read_start()

    def forget_deadlines(self, positions: Iterable[Position]) -> None:
        """Cancel the deadlines of these entries."""
        if len(self.deadlines):
            for position in positions:
                self.deadlines.cancel(position)

    def forget_all_deadlines(self) -> None:
        """Cancel all deadlines, including those of rescheduled entries."""
        self.waits_for_filter_until_ms = 0
        if len(self.rescheduled):
            self.rescheduled = TimingWheel(tick_ms=_RESCHEDULE_TICK_MS)
        if len(self.deadlines):
            self.deadlines.cancel_all()

    def end_of_topic(self) -> Effects:
        """Return the effect that tells consumers about the end of a terminated topic.

        Consumers that never granted permits are left out: a client may not know yet that its consumer is attached.
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
    """Return whether `count` is a power of two. Frequent events are logged only at these counts."""
    return count & (count - 1) == 0
