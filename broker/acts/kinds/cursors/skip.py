"""Acts that skip messages of a subscription."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.change import Change, Target, with_index
from broker.acts.kinds.cursors.chunked import chunk_at, end_of_message
from broker.acts.kinds.cursors.cursor_kind import CursorKind
from broker.acts.kinds.cursors.message_place import find_message
from broker.acts.kinds.parameters import ActInvalid, NoParameters, NothingToActOn, Rule
from broker.core.counted import counted

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["Clear", "Skip", "SkipEntries", "SkipMessages", "SkipOne", "TheMessage", "find_one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipMessages:
    """The number of messages to skip."""

    messages: Annotated[
        int, Rule("number of unacknowledged messages to skip; the last can be inside a batch", least=1)
    ]


class Skip(CursorKind[SkipMessages]):
    """Skip the next unacked messages."""

    name = "skip"
    summary = "Skip the next messages: they count as acked and are not delivered."
    parameters = SkipMessages

    def why_one_partition(self, given: SkipMessages) -> str:
        return (
            "skip counts messages in their order, and messages of different partitions have no common order"
        )

    async def find(self, context: ActContext, subscription: Subscription, given: SkipMessages) -> Change:
        found = await with_index(
            subscription.reader, lambda: subscription.cursor.position_after_messages(given.messages)
        )
        notes: tuple[str, ...] = ()
        if found.messages != given.messages:
            left = (
                f"only {counted(found.messages, 'message is', 'messages are')}"
                if found.messages
                else "no message is"
            )
            notes = (f"{left} left to skip",)
        position = found.mark_delete
        topic = await context.topic()
        last = None if found.remaining is not None else await chunk_at(topic, position)
        if last is not None and not last.is_last:
            end = await end_of_message(topic, last)
            if end is not None:
                position = end
                notes += (
                    f"{last}, so all its chunks up to {end} are skipped: applications could not use the rest",
                )
        return Target(how="move", position=position, remaining=found.remaining, notes=notes).as_change()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesToSkip:
    """The number of entries to skip."""

    entries: Annotated[
        int, Rule("number of entries to skip that are not wholly acknowledged; a batch is one", least=1)
    ]


class SkipEntries(CursorKind[EntriesToSkip]):
    """Skip the next entries."""

    name = "skip_entries"
    summary = "Skip the next entries: their messages count as acked and are not delivered."
    can_be_requested = False  # Only the admin API creates this act, so `requests.plan` refuses it
    parameters = EntriesToSkip

    def why_one_partition(self, given: EntriesToSkip) -> str:
        return "skip counts entries in their order, and entries of different partitions have no common order"

    async def find(self, context: ActContext, subscription: Subscription, given: EntriesToSkip) -> Change:
        found = await with_index(
            subscription.reader, lambda: subscription.cursor.position_after_entries(given.entries)
        )
        return Target(how="move", position=found.mark_delete).as_change()


@dataclass(frozen=True, slots=True, kw_only=True)
class TheMessage:
    """The message to skip."""

    id: Annotated[
        str,
        Rule("ledger:entry, or ledger:entry:partition:index (-1: no partition) for one message of a batch"),
    ]


class SkipOne(CursorKind[TheMessage]):
    """Skip one message."""

    name = "skip_one"
    summary = "Skip one message, for example one that always fails: it counts as acked and is not delivered."
    parameters = TheMessage

    def message_id(self, given: TheMessage) -> str:
        return given.id

    async def find(self, context: ActContext, subscription: Subscription, given: TheMessage) -> Change:
        target = await find_one(context, subscription, given.id)
        chunk = await chunk_at(await context.topic(), target.position)
        notes = (
            ()
            if chunk is None
            else (f"{chunk}: applications cannot use the other chunks without it, so skip those too",)
        )
        return replace(target, notes=notes).as_change()


async def find_one(context: ActContext, subscription: Subscription, message_id: str) -> Target:
    """Find one message to ack.

    Raises NothingToActOn if the message is not stored, and ActInvalid if the message is already acked.
    """
    place = await find_message(context.pool, await context.topic(), message_id)
    if not place.is_stored:
        raise NothingToActOn(f"{message_id} is not stored: there is nothing to skip or copy")
    remaining = None if place.index is None else place.everything & ~(1 << place.index)
    left = subscription.cursor.remaining_of(place.position)
    if left == 0 or (left is not None and place.index is not None and not left >> place.index & 1):
        raise ActInvalid(f"{message_id} is already acknowledged")
    return Target(how="one", position=place.position, remaining=remaining)


class Clear(CursorKind[NoParameters]):
    """Skip all messages that were stored when the act was planned."""

    name = "clear"
    summary = "Skip the whole backlog: its messages count as acked and are not delivered."
    parameters = NoParameters

    async def find(self, context: ActContext, subscription: Subscription, given: NoParameters) -> Change:
        return Target(how="move", position=subscription.log.ledgers.last_position()).as_change()
