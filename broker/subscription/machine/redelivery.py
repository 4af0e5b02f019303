"""Decide when to redeliver entries, and when to send entries that were held back.

The delivery story records which consumers got and acked which entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from broker.core.subscription.story import PendingRun
from broker.core.subscription.story_rows import StoryEvent
from broker.core.subscription.types import SubscriptionType
from broker.subscription.machine.effects import (
    SEND,
    AskConsumer,
    Effect,
    Effects,
    Say,
    TellActive,
    Watch,
    Wish,
)

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.core.subscription.delivery_deadlines import Due
    from broker.subscription.machine.state import Member, State

__all__ = ["Redelivery"]

_INFO: Final = 20
_AGAIN: Final[Effects] = (Wish.CHANGED, Wish.SEND)


class Redelivery:
    """The redeliveries of one subscription."""

    def __init__(self, state: State) -> None:
        self._state = state

    def redeliver(
        self, member: Member, positions: Sequence[Position] | None, reason: StoryEvent, now_ms: int
    ) -> Effects:
        """Redeliver entries of a consumer. If `positions` is None, redeliver all pending entries of the consumer.

        On an Exclusive or Failover subscription, a request from the active consumer redelivers all unacked entries.
        A request from any other consumer redelivers nothing.
        """
        if positions is not None and not positions:
            return ()
        state = self._state
        self.record_return(member, positions, reason, now_ms)
        if len(state.deadlines) and not state.type.single_active:
            # A client may name entries that are pending at other consumers. These entries keep their deadlines.
            asked = member.dispatch.pending if positions is None else positions
            state.forget_deadlines(
                [each for each in asked if state.dispatcher.has_pending(member.dispatch, each)]
            )
        if state.dispatcher.redeliver(member.dispatch, positions):
            state.rewind()
        return _AGAIN

    def record_return(
        self, member: Member, positions: Sequence[Position] | None, reason: StoryEvent, now_ms: int
    ) -> None:
        """Record in the delivery story that entries will be taken back from a consumer.

        If `positions` is None, all pending entries of the consumer are taken back.
        """
        state = self._state
        if not state.story.is_on:
            return
        if state.type.single_active:
            # If a Failover switch is planned, the switch will record that entries are taken back.
            if member.dispatch is state.dispatcher.active and state.dispatcher.due_ms is None:
                state.story.rewound(reason, state.cursor, now_ms)
            return
        pending, counts = member.dispatch.pending, state.counts
        if positions is None and not len(counts):
            runs = [PendingRun(*run, 0) for run in pending.deliveries()]
            state.story.returned(reason, member, runs, now_ms)
            return
        taken = pending if positions is None else sorted({each for each in positions if each in pending})
        runs = []
        for each in taken:
            found = (pending.delivered_ms(each), counts.get(each))
            if runs and runs[-1][3:] == found and (runs[-1].ledger_id, runs[-1].last + 1) == each:
                runs[-1] = PendingRun(each.ledger_id, runs[-1].first, each.entry_id, *found)
            else:
                runs.append(PendingRun(each.ledger_id, each.entry_id, each.entry_id, *found))
        state.story.returned(reason, member, runs, now_ms)

    def redeliver_at(
        self, member: Member, positions: Iterable[Position], due_ms: int, now_ms: int
    ) -> Effects:
        """Redeliver these entries at `due_ms`, unless they are acked before that time."""
        if due_ms <= now_ms:
            return self.redeliver(member, list(positions), StoryEvent.NEGATIVELY_ACKED, now_ms)
        for position in positions:
            # Without this check, a client could fill the timers with made-up ids.
            if self.has_pending(member, position):
                self._state.deadlines.nack(position, due_ms)
        return (Watch(due_ms), Wish.CHANGED)

    def has_pending(self, member: Member, position: Position) -> bool:
        """Return whether an entry was sent to this consumer and is not fully acked."""
        state = self._state
        return state.dispatcher.has_pending(member.dispatch, position) and not state.cursor.is_acked(position)

    def replay(self, positions: Iterable[Position]) -> Effects:
        """Send entries that were held back."""
        state = self._state
        if state.members:
            state.dispatcher.replay(
                position
                for position in positions
                if position < state.read_position and not state.cursor.is_acked(position)
            )
        return SEND

    # -- time ----------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """Return when `time_passed` must be called next, or None if no call is needed."""
        state = self._state
        dues = (
            state.deadlines.next_due_ms(),
            state.rescheduled.next_due_ms(),
            state.waits_for_filter_until_ms or None,
            state.dispatcher.due_ms,
        )
        return min((due for due in dues if due is not None), default=None)

    def time_passed(self, now_ms: int) -> tuple[int, Effects]:
        """Do everything that is due. Return the number of due entries, and the effects."""
        effects: list[Effect] = [*self.switch(now_ms)]
        overdue = self._overdue(now_ms, effects)
        return overdue + self._filter_again(now_ms, effects), effects

    def switch(self, now_ms: int) -> Effects:
        """Carry out a Failover switch, if one is due."""
        state = self._state
        if not state.dispatcher.run_due(now_ms):
            return ()
        effects: list[Effect] = []
        active = state.dispatcher.active
        if active is not None:
            effects.append(Say(_INFO, "%s is active", (active.name,)))
        if state.story.is_on:
            state.story.rewound(StoryEvent.CONSUMER_SWITCHED, state.cursor, now_ms)
        state.rewind()
        effects += (TellActive(key, waits=False) for key in state.members)
        effects += _AGAIN
        return effects

    def watch_switch(self, now_ms: int) -> Effects:
        """Return the effects that cause a planned switch to happen."""
        due_ms = self._state.dispatcher.due_ms
        if due_ms is None:
            return ()
        return (Watch(due_ms), Wish.SWITCH_SOON) if due_ms <= now_ms else (Watch(due_ms),)

    def joined(self, member: Member, now_ms: int) -> Effects:
        """Tell a new Failover consumer whether it is active. If a switch is planned, tell the consumer later."""
        if self._state.type is not SubscriptionType.FAILOVER:
            return ()
        if self._state.dispatcher.due_ms is None:
            return (TellActive(member.key, waits=True),)
        return self.watch_switch(now_ms)

    def _overdue(self, now_ms: int, effects: list[Effect]) -> int:
        state = self._state
        due = {
            each.position: each
            for each in state.deadlines.pop_due(now_ms)
            if not state.cursor.is_acked(each.position)
        }
        if not due:
            return 0
        overdue = 0
        for member in state.members.values():
            if overdue_here := self._overdue_at(member, due):
                overdue += len(overdue_here)
                effects.append(AskConsumer(member.key, overdue_here))
        return overdue

    def _overdue_at(self, member: Member, due: Mapping[Position, Due]) -> list[Due]:
        state, pending = self._state, member.dispatch.pending
        # Search the smaller collection.
        if not state.type.single_active and len(pending) < len(due):
            return [due[position] for position in pending if position in due]
        return [each for each in due.values() if state.dispatcher.has_pending(member.dispatch, each.position)]

    def _filter_again(self, now_ms: int, effects: list[Effect]) -> int:
        state = self._state
        due = state.rescheduled.pop_due(now_ms)
        if due:
            effects += self.replay(due)
        if state.waits_for_filter_until_ms and state.waits_for_filter_until_ms <= now_ms:
            state.waits_for_filter_until_ms = 0
            effects += SEND
            return len(due) + 1  # Also count the entry that made the subscription wait
        return len(due)
