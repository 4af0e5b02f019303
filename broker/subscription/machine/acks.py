"""Apply acks of clients.

An ack is late if the message counts of its entry are not in memory, or if an earlier ack is late.

While the cursor is being moved, acks are put off until the move ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.errors import BrokerError, InvalidAck, ServiceNotReady
from broker.core.ledgers.message_index import IndexMissing
from broker.core.subscription.story import without_acked
from broker.core.subscription.story_rows import StoryEvent
from broker.subscription.machine.effects import (
    ACKED,
    ACKED_BY_READER,
    Effect,
    Effects,
    Say,
    Settle,
    SettleWhenDurable,
    Wish,
)
from broker.subscription.machine.state import Member, State, is_worth_a_line

if TYPE_CHECKING:
    from broker.core.ledgers.ledger import LedgerMap
    from broker.core.ledgers.message_index import Range
    from broker.core.position import Position
    from broker.subscription.requests import AckRequest, DurableCallback

__all__ = ["AckCommand", "Acks"]

_WARNING: Final = 30
_LATE: Final[Effects] = (Wish.APPLY_LATE_ACKS,)
_CHANGED, _SEND = ACKED_BY_READER


class AckCommand(NamedTuple):
    """One ack command. A named tuple is fast to create."""

    member: Member
    acks: Sequence[AckRequest]
    cumulative: bool
    receipt: DurableCallback | None
    # True if the client discarded the entries and granted one permit for each entry, not one for each message
    returns_permits: bool
    resets: int  # Number of cursor resets before this command


class Acks:
    """The acks of one subscription. Without `batch_index_acks`, a batch can only be acked as a whole."""

    def __init__(self, state: State, ledgers: LedgerMap, *, batch_index_acks: bool) -> None:
        self._state = state
        self._ledgers = ledgers
        self._batch_index_acks = batch_index_acks
        # This is not a deque, because an empty deque takes 0.7 KiB.
        self._late: list[AckCommand] = []
        self._put_off: list[AckCommand] = []

    @property
    def first_late(self) -> AckCommand | None:
        """The ack that waits for message counts, if any."""
        return self._late[0] if self._late else None

    def ack(
        self,
        member: Member,
        acks: Sequence[AckRequest],
        cumulative: bool,
        receipt: DurableCallback | None,
        returns_permits: bool,
        now_ms: int,
    ) -> Effects:
        """Apply the acks of one command. After an error, some acks may have been applied."""
        state = self._state
        command = AckCommand(member, acks, cumulative, receipt, returns_permits, state.resets)
        if state.is_moving:
            if state.ignores_acks:
                return _refused(command)
            self._put_off.append(command)
            return ()
        member.last_ack_ms = now_ms
        if cumulative and (len(acks) != 1 or not state.type.single_active):
            return self._ignore(command)
        if self._late:
            self._late.append(command)
            return ()
        try:
            return self._apply(command)
        except IndexMissing:
            self._late.append(command)
            return _LATE

    def thrown_away(self, member: Member, reason: str) -> Effects:
        """Count a message that a client discarded for this reason."""
        counts = self._state.counters.validation_errors
        count = counts[reason] = counts.get(reason, 0) + 1
        if not is_worth_a_line(count):
            return ()
        return (Say(_WARNING, "%s discarded a message: %s (%s so far)", (member.name, reason, count)),)

    def _ignore(self, command: AckCommand) -> Effects:
        """Ignore a cumulative ack, but report success to the client."""
        counters = self._state.counters
        counters.ignored_acks += 1
        effects: list[Effect] = []
        if is_worth_a_line(counters.ignored_acks):
            values = (command.member.name, counters.ignored_acks)
            effects.append(Say(_WARNING, "a cumulative ack by %s is ignored (%s so far)", values))
        if command.receipt is not None:
            effects.append(Settle(command.receipt, None))
        return effects

    def _apply(self, command: AckCommand) -> Effects:
        """Apply a command. Raises IndexMissing if message counts must be loaded first."""
        member, acks, cumulative, receipt, returns_permits, _ = command
        state = self._state
        cursor, dispatcher, deadlines, counters = (
            state.cursor,
            state.dispatcher,
            state.deadlines,
            state.counters,
        )
        story, newly = state.story, None
        latencies, now_ms = counters.ack_latencies, member.last_ack_ms
        wrong: InvalidAck | None = None
        said: list[Effect] = []
        before = cursor.mark_delete
        for position, remaining in acks:
            if remaining and not self._batch_index_acks and self._ledgers.contains(position):
                # A cumulative ack of part of a batch acks only the earlier entries.
                # An individual ack of part of a batch does nothing.
                if not cumulative:
                    continue
                position, remaining = self._ledgers.previous_of(position), None
            if cumulative and position.entry_id < 0 and self._ledgers.get(position.ledger_id) is not None:
                # Clients send the entry id -1 for the entry before a ledger's first entry.
                position = self._ledgers.previous_of(position)
            if cumulative and story.watches_acks:
                newly = list(without_acked(cursor, self._ledgers.spans(cursor.mark_delete, position)))
            try:
                result = (
                    cursor.ack_through(position, remaining) if cumulative else cursor.ack(position, remaining)
                )
            except InvalidAck as error:
                wrong = error
                counters.invalid_acks += 1
                if is_worth_a_line(counters.invalid_acks):
                    values = (member.name, error, counters.invalid_acks)
                    said.append(Say(_WARNING, "%s: %s (%s so far)", values))
                continue
            if result.messages:
                member.messages_acked += result.messages
                counters.messages_acked += result.messages
            if returns_permits and result.messages > 1 and dispatcher.has_pending(member.dispatch, position):
                member.dispatch.flow(result.messages - 1)
            if cumulative:
                for delivered_ms, messages in dispatcher.acked_through(position, result.messages):
                    latencies.count(now_ms - delivered_ms, messages)
            else:
                delivered_ms = dispatcher.acked(position, result.messages, result.completed, member.dispatch)
                if delivered_ms and result.messages:
                    latencies.count(now_ms - delivered_ms, result.messages)
            if story.watches_acks and result.messages:
                if newly is None:
                    story.acked(member, position, result.completed, member.last_ack_ms)
                else:
                    self._record_cumulative(member, position, newly)
            if result.completed and len(deadlines):
                deadlines.cancel(position)
        if cursor.mark_delete != before:
            state.advanced_ms = now_ms
        if wrong is None and not state.is_terminated and state.is_durable:
            return ACKED if receipt is None else (SettleWhenDurable(receipt), _CHANGED, _SEND)
        return self._applied(receipt, wrong, said)

    def _record_cumulative(self, member: Member, position: Position, newly: list[Range]) -> None:
        story, now_ms = self._state.story, member.last_ack_ms
        if newly and not self._state.cursor.is_acked(position):  # The last entry is only partly acked
            ledger_id, first, last = newly.pop()
            if first < last:
                newly.append((ledger_id, first, last - 1))
            story.acked(member, position, False, now_ms)
        story.acked_through(StoryEvent.ACKED, member, newly, now_ms)

    def _applied(
        self, receipt: DurableCallback | None, wrong: InvalidAck | None, effects: list[Effect]
    ) -> Effects:
        is_durable = self._state.is_durable
        if is_durable and receipt is not None and wrong is None:
            effects.append(SettleWhenDurable(receipt))
        else:
            if is_durable:
                effects.append(Wish.DIRTY)
            if receipt is not None:
                effects.append(Settle(receipt, wrong))
        effects += ACKED_BY_READER
        effects += self._state.end_of_topic()
        return effects

    # -- late acks -----------------------------------------------------------------------------------------------

    def apply_first_late(self) -> Effects:
        """Apply the oldest late ack. During a move, put off all late acks instead.

        Raises IndexMissing if message counts must be loaded first. Raises ServiceNotReady if the cursor was reset after
        the ack arrived, or if the subscription is deleted.
        """
        state, command = self._state, self._late[0]
        if state.resets != command.resets or state.is_deleted:
            raise ServiceNotReady("the cursor was moved; your unacknowledged messages are delivered again")
        if state.is_moving:
            self._put_off[:0] = self._late
            self._late.clear()
            return ()
        effects = self._apply(command)
        self._late.pop(0)
        return effects

    def refuse_first_late(self, error: BrokerError) -> Effects:
        """Refuse the oldest late ack. Part of the ack may have been applied."""
        command = self._late.pop(0)
        effects: list[Effect] = [Wish.DIRTY] if self._state.is_durable else []
        if command.receipt is not None:
            effects.append(Settle(command.receipt, error))
        return effects

    def drop_first_late(self) -> None:
        """Remove the oldest late ack. The caller must answer the client."""
        self._late.pop(0)

    def forget_late(self) -> None:
        """Forget all late acks when the broker stops. Their messages are delivered again."""
        self._late.clear()

    # -- moves ---------------------------------------------------------------------------------------------------

    def refuse_put_off(self) -> Effects:
        """Refuse the acks that were put off."""
        return [effect for each in self.take_put_off() for effect in _refused(each)]

    def take_put_off(self) -> list[AckCommand]:
        """Remove and return the acks that a move put off, in order."""
        commands, self._put_off = self._put_off, []
        return commands

    # -- the broker's own acks -----------------------------------------------------------------------------------

    def ack_for_broker(self, position: Position, remaining: int | None, now_ms: int) -> None:
        """Ack the messages whose bit in `remaining` is 0. If `remaining` is None, ack the whole entry.

        Raises IndexMissing or InvalidAck.
        """
        state = self._state
        result = state.cursor.ack(position, remaining)
        state.counters.messages_acked += result.messages
        state.dispatcher.acked(position, result.messages, result.completed)
        if state.story.watches_acks and result.messages:
            state.story.acked(None, position, result.completed, now_ms)
        if result.completed and len(state.deadlines):
            state.deadlines.cancel(position)


def _refused(command: AckCommand) -> Effects:
    if command.receipt is None:
        return ()
    return (
        Settle(
            command.receipt,
            ServiceNotReady("the cursor is being moved; your unacknowledged messages are delivered again"),
        ),
    )
