"""The logic of one subscription, without I/O, event loop, clock or logging.

Many methods return effects. The caller must carry out the effects in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from broker.core.subscription.story_rows import StoryEvent
from broker.subscription.machine.acks import Acks
from broker.subscription.machine.effects import SEND, Effect, Effects, Say, Wish
from broker.subscription.machine.redelivery import Redelivery
from broker.subscription.machine.screening import Screening
from broker.subscription.machine.sending import Sending

if TYPE_CHECKING:
    from broker.core.cursor.state import AckOverlay
    from broker.core.dispatchers.base import Dispatcher
    from broker.core.entry import StoredEntry
    from broker.core.ledgers.ledger import LedgerMap
    from broker.core.position import Position
    from broker.core.subscription.types import SubscriptionType
    from broker.plugins import EntryFilter
    from broker.subscription.machine.rates import DispatchLimit
    from broker.subscription.machine.screening import Delayed
    from broker.subscription.machine.state import Compacted, Member, State

__all__ = ["SubscriptionMachine"]

_WARNING: Final = 30


class SubscriptionMachine:
    """The state machine of one subscription."""

    def __init__(
        self,
        state: State,
        *,
        topic_name: str,
        ledgers: LedgerMap,
        cached: Mapping[int, Mapping[int, StoredEntry]],
        delayed: Delayed,
        compacted: Compacted,
        read_entries: int,
        filters: Sequence[EntryFilter],
        filter_delay_ms: int,
        batch_index_acks: bool,
    ) -> None:
        self.state = state
        screening = Screening(state, delayed, filters, topic_name=topic_name, delay_ms=filter_delay_ms)
        self.acks = Acks(state, ledgers, batch_index_acks=batch_index_acks)
        self.sending = Sending(
            state,
            screening,
            compacted,
            ledgers=ledgers,
            cached=cached,
            delayed=delayed,
            read_entries=read_entries,
        )
        self.redelivery = Redelivery(state)

    # -- consumers -----------------------------------------------------------------------------------------------

    def use_type(self, type_: SubscriptionType, dispatcher: Dispatcher) -> None:
        """Change the subscription type. Call this only while no consumer is connected."""
        self.state.type = type_
        self.state.dispatcher = dispatcher
        self.state.story.use_type(keeps_order=type_.single_active)
        if type_.single_active:
            self.state.counts.clear()  # Exclusive and Failover use no redelivery counts

    def attach(self, member: Member, now_ms: int) -> Effects:
        """Attach a consumer. Raises SubscriptionBusy, ConsumerBusy or ConsumerAssignFailed."""
        state = self.state
        rewinds = state.dispatcher.attach(member.dispatch, member.request.type, now_ms)
        state.members[member.key] = member
        if rewinds:
            state.read_position = state.read_start()
        effects: list[Effect] = [*self.redelivery.joined(member, now_ms)]
        for warning in member.request.warnings:
            known = state.counters.option_warnings
            if warning not in known:
                effects.append(Say(_WARNING, "%s", (warning,)))
            known[warning] = known.get(warning, 0) + 1
        effects.append(Wish.CHANGED)
        return effects

    def gone(self, member: Member, now_ms: int) -> Effects:
        """Remove a consumer. Its pending entries will be redelivered. A second call does nothing."""
        state = self.state
        if state.members.pop(member.key, None) is None:
            return ()
        state.last_used_ms = now_ms
        self.redelivery.record_return(member, None, StoryEvent.CONSUMER_LEFT, now_ms)
        state.forget_deadlines(state.dispatcher.detach(member.dispatch, now_ms))
        effects: list[Effect] = [*self.redelivery.watch_switch(now_ms)]
        if not state.members:
            if state.story.is_on:
                state.story.rewound(StoryEvent.CONSUMER_LEFT, state.cursor, now_ms)
            state.rewind()
            # During a seek, keep a reader's cursor, because the reader will attach again.
            if not state.is_durable and not state.ignores_acks:
                effects.append(Wish.FORGET)
        effects.append(Wish.SEND)
        return effects

    def served(self) -> list[int]:
        """Return the keys of the consumers that a reset closes."""
        active = self.state.dispatcher.active
        return [key for key, each in self.state.members.items() if active is None or each.dispatch is active]

    def flow(self, member: Member, permits: int, now_ms: int) -> Effects:
        """Add permits from a client. Raises InvalidFlow if `permits` is below 1."""
        self.state.dispatcher.flow(member.dispatch, permits)
        member.flowed(now_ms)
        return SEND

    def wrote(self, messages: int, redelivered: int) -> None:
        """Count messages that were written to a consumer."""
        counters = self.state.counters
        counters.messages_out += messages
        counters.messages_redelivered += redelivered

    def stored(self, mark_delete: Position) -> None:
        """Record the mark-delete position that is now stored."""
        self.state.stored_mark_delete = mark_delete

    def loaded(self, *, last_used_ms: int, is_paused: bool) -> None:
        """Set the state that was stored with the cursor."""
        self.state.last_used_ms = last_used_ms or self.state.last_used_ms
        self.state.is_paused = is_paused

    # -- limits, pauses and events -------------------------------------------------------------------------------

    def limit_unacked(self, *, per_subscription: int, per_consumer: int) -> Effects:
        """Apply new limits on unacked messages. 0 means no limit."""
        self.state.dispatcher.limit_unacked(per_subscription=per_subscription, per_consumer=per_consumer)
        return SEND

    def limit_rate(self, limit: DispatchLimit | None) -> Effects:
        """Apply new dispatch rates. If `limit` is None, dispatch is not limited."""
        self.state.limit = limit
        return SEND

    def pause(self) -> None:
        """Stop dispatch until `resume` is called."""
        self.state.is_paused = True

    def resume(self) -> Effects:
        """Start dispatch again."""
        self.state.is_paused = False
        return SEND

    def gap_found(self, what: str) -> None:
        """Record that an entry is missing from the log. Dispatch stops until the cursor is moved."""
        self.state.gap = what

    def topic_ended(self) -> Effects:
        """Record that the topic is terminated."""
        self.state.is_terminated = True
        return self.state.end_of_topic()

    def deleted(self) -> None:
        """Record that the subscription's database rows are deleted."""
        self.state.is_deleted = True

    # -- moves of the cursor -------------------------------------------------------------------------------------

    def begin_move(self) -> None:
        """Stop dispatch and put off acks until `end_move` is called."""
        self.state.is_moving = True

    def forget_acks(self) -> Effects:
        """Refuse all waiting acks, and every new ack until the move ends."""
        self.state.ignores_acks = True
        self.state.resets += 1
        return self.acks.refuse_put_off()

    def end_move(self) -> None:
        """Allow dispatch and acks again."""
        self.state.is_moving = self.state.ignores_acks = False

    def moved(self) -> Effects:
        """Forget the pending entries that the cursor has passed, and set the next position to read."""
        state = self.state
        state.dispatcher.moved(state.cursor.mark_delete)
        state.story.moved(state.cursor.mark_delete)
        state.gap = ""  # If the cursor has not passed the gap, the next read finds the gap again
        start = state.read_start()
        # If consumers stay attached, do not move the read position back, so that no pending entry is read again.
        stays = bool(state.members) and not state.ignores_acks
        state.read_position = max(state.read_position, start) if stays else start
        return (Wish.CHANGED, *state.end_of_topic())

    def act_passed(self, position: Position, left: int) -> None:
        """Record that an operator acked an entry. Messages whose bit in `left` is 1 stay unacked."""
        dispatcher = self.state.dispatcher
        for consumer in dispatcher.consumers:
            passed = consumer.pending.get(position) - left.bit_count()
            if passed > 0:
                dispatcher.acked(position, passed, not left, consumer)
        if not left:
            dispatcher.discard(position)
            self.state.deadlines.cancel(position)
            self.state.story.passed(position)

    def record_for_undo(self, act_id: int, until_ms: int, recorded: AckOverlay) -> None:
        """Record acks while an operator's act can be undone."""
        self.state.cursor.start_undo_overlay(recorded)
        self.state.undo_act_id = act_id
        self.state.undo_until_ms = until_ms

    def undo_is_over(self) -> None:
        """Stop recording acks for an undo."""
        self.state.undo_until_ms = 0
        self.state.cursor.stop_undo_overlay()
