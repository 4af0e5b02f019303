"""Skip and clear: what is passed counts as acked and is not delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.chunked import chunk_at, end_of_message
from broker.acts.kinds.cursors.cursor_kind import Change, CursorKind, Target, with_index
from broker.acts.kinds.cursors.message_place import find_message
from broker.acts.kinds.parameters import ActInvalid, NoParameters, NothingToActOn, Rule
from broker.core.counted import counted

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["Clear", "Skip", "SkipMessages", "SkipOne", "TheMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipMessages:
    """How many."""

    messages: Annotated[int, Rule("so many unacknowledged messages; it can end inside a batch", least=1)]


class Skip(CursorKind[SkipMessages]):
    """The next N unacked messages, and of a message in chunks all of them; consumers stay."""

    name = "skip"
    summary = "Pass over the next messages: they count as acked and are not delivered."
    parameters = SkipMessages

    async def find(self, context: ActContext, subscription: Subscription, given: SkipMessages) -> Change:
        found = await with_index(
            subscription.reader, lambda: subscription.cursor.position_after_messages(given.messages)
        )
        notes: tuple[str, ...] = ()
        if found.messages != given.messages:
            notes = (f"only {counted(found.messages, 'message is', 'messages are')} left to skip",)
        position = found.mark_delete
        topic = await context.topic()
        last = None if found.remaining is not None else await chunk_at(topic, position)
        if last is not None and not last.is_last:
            end = await end_of_message(topic, last)
            if end is not None:
                position = end
                notes += (
                    f"{last}: it goes on to the last of them, {end}, as the rest would reach no application",
                )
        return Target(how="move", position=position, remaining=found.remaining, notes=notes).as_change()


@dataclass(frozen=True, slots=True, kw_only=True)
class TheMessage:
    """Which one."""

    id: Annotated[
        str,
        Rule("ledger:entry, or ledger:entry:partition:index (-1: no partition) for one message of a batch"),
    ]


class SkipOne(CursorKind[TheMessage]):
    """One message, wherever it is; the cursor's place stays unless it touches it."""

    name = "skip_one"
    summary = "Acknowledge one message in the subscription's stead: a poison message, for example."
    parameters = TheMessage

    async def find(self, context: ActContext, subscription: Subscription, given: TheMessage) -> Change:
        cursor = subscription.cursor
        topic = await context.topic()
        place = await find_message(context.pool, topic, given.id)
        if not place.is_stored:
            raise NothingToActOn(f"{given.id} is not stored: there is nothing to skip")
        remaining = None if place.index is None else place.everything & ~(1 << place.index)
        left = cursor.remaining_of(place.position)
        if left == 0 or (left is not None and place.index is not None and not left >> place.index & 1):
            raise ActInvalid(f"{given.id} is acknowledged already")
        chunk = await chunk_at(topic, place.position)
        notes = (
            ()
            if chunk is None
            else (f"{chunk}: without it the others reach no application, so skip them too",)
        )
        return Target(how="one", position=place.position, remaining=remaining, notes=notes).as_change()


class Clear(CursorKind[NoParameters]):
    """Everything stored when it was planned; consumers stay."""

    name = "clear"
    summary = "Pass over everything that waits: it counts as acked and is not delivered."
    parameters = NoParameters

    async def find(self, context: ActContext, subscription: Subscription, given: NoParameters) -> Change:
        return Target(how="move", position=subscription.log.ledgers.last_position()).as_change()
