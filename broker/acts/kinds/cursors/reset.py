"""Move a cursor forward or back to an exact place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.change import Change, Target, with_index
from broker.acts.kinds.cursors.cursor_kind import CursorKind
from broker.acts.kinds.cursors.message_place import find_message
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.core.counted import counted, lasting
from broker.core.position import EARLIEST, LATEST
from broker.storage.acts import bookmarks as bookmark_store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.core.cursor.cursor import Cursor
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Place", "Reset", "find_place"]

# Last millisecond of the year 9999. Later times do not fit into a Python `datetime`.
_MOST_MS: Final = 253_402_300_799_999
_NEEDS = {
    "time": "time_ms",
    "back_time": "back_ms",
    "shift": "messages",
    "id": "id",
    "like": "like",
    "bookmark": "bookmark",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a topic."""

    to: Annotated[
        Literal["earliest", "latest", "time", "back_time", "id", "shift", "like", "bookmark"],
        Rule("how the place is given; some ways need one of the parameters below"),
    ]
    time_ms: Annotated[
        int | None,
        Rule(
            "with time: ms since 1970; the first message stored at or after it comes next",
            least=0,
            most=_MOST_MS,
        ),
    ] = None
    back_ms: Annotated[int | None, Rule("with back_time: how long before now", least=1, most=_MOST_MS)] = None
    messages: Annotated[
        int | None,
        Rule("with shift: number of messages after the mark-delete position; negative: before it"),
    ] = None
    id: Annotated[
        str | None, Rule("with id: ledger:entry, or ledger:entry:partition:index inside a batch")
    ] = None
    inclusive: Annotated[bool, Rule("with id: false begins after that message")] = True
    like: Annotated[
        str | None,
        Rule("with like: another subscription of the topic; its next message comes next here"),
    ] = None

    bookmark: Annotated[str | None, Rule("with bookmark: the name of one of the topic's bookmarks")] = None

    def __post_init__(self) -> None:
        needed = _NEEDS.get(self.to)
        for name in _NEEDS.values():
            is_given = getattr(self, name) is not None
            if name == needed and not is_given:
                raise ActInvalid(f"to {self.to} needs {name}")
            if name != needed and is_given:
                raise ActInvalid(f"{name} does not belong to {self.to}: leave it out")


class Reset(CursorKind[Place]):
    """Put a cursor at a place. Close all consumers except inactive Failover consumers."""

    name = "reset"
    summary = "Put the cursor at an exact place, forward or back; consumers reconnect and start there."
    closes_consumers = True
    forgets_acks = True
    parameters = Place

    def why_one_partition(self, given: Place) -> str:
        if given.to != "shift":
            return ""
        return (
            "shift counts messages in their order, and messages of different partitions have no common order"
        )

    def message_id(self, given: Place) -> str | None:
        return given.id

    async def find(self, context: ActContext, subscription: Subscription, given: Place) -> Change:
        return (await find_place(context, await context.topic(), given, subscription.cursor)).as_change()


async def find_place(context: ActContext, topic: Topic, given: Place, cursor: Cursor | None) -> Target:
    """Return the requested place. Only a shift needs `cursor`.

    Raises ActInvalid if the place does not exist.
    """
    ledgers = topic.log.ledgers
    match given.to:
        case "earliest":
            return Target(how="reset", position=ledgers.next_valid(EARLIEST), begins_at=EARLIEST)
        case "latest":
            return Target(how="reset", position=ledgers.end(), begins_at=LATEST)
        case "id":
            return await _at_id(context.pool, topic, given.id or "", is_inclusive=given.inclusive)
        case "like":
            return _like(topic, given.like or "")
        case "bookmark":
            return await _at_bookmark(context.pool, topic, given.bookmark or "")
        case "shift":
            return await _shifted(topic, given.messages or 0, cursor)
        case _:
            asked_ms = given.time_ms
            if asked_ms is None:
                asked_ms = context.clock.now_ms() - (given.back_ms or 0)
            return await _at_time(topic, asked_ms)


async def _at_time(topic: Topic, asked_ms: int) -> Target:
    position = await topic.reader.position_at_time(asked_ms)
    first = next((info.first_append_ms for info in topic.log.ledgers.infos() if info.entries), 0)
    notes: tuple[str, ...] = ()
    if first and asked_ms < first:
        notes = (f"the oldest message kept is {lasting(first - asked_ms)} younger than the requested time",)
    # Compaction may keep messages that the log has trimmed.
    kept = await topic.compacted.first_since(asked_ms)
    begins_at = position if kept is None else min(position, kept)
    return Target(how="reset", position=position, begins_at=begins_at, notes=notes)


async def _at_id(pool: ConnectionPool, topic: Topic, text: str, *, is_inclusive: bool) -> Target:
    place = await find_message(pool, topic, text)
    ledgers = topic.log.ledgers
    if place.is_stored:
        begins_at = place.index or 0
        if not is_inclusive:
            begins_at = place.messages if place.index is None else place.index + 1
        if begins_at >= place.messages:
            return Target(how="reset", position=ledgers.next_after(place.position))
        remaining = place.everything & ~((1 << begins_at) - 1) if begins_at else None
        return Target(how="reset", position=place.position, remaining=remaining)
    landing = ledgers.next_valid(place.position)
    where = (
        f"the next message kept is {landing}"
        if ledgers.contains(landing)
        else "that is after the last message"
    )
    note = f"{place.position} is not stored; {where}"
    return Target(how="reset", position=landing, begins_at=place.position, notes=(note,))


def _like(topic: Topic, name: str) -> Target:
    other = topic.subscriptions.get(name)
    if other is None:
        raise NothingToActOn(f"there is no subscription {name!r} on {topic.name} whose place could be used")
    notes: tuple[str, ...] = ()
    if other.cursor.has_individual_acks or other.cursor.has_partial_acks:
        notes = (
            f"acks of {name} beyond its first unacked message are not copied: these messages are delivered here",
        )
    return Target(how="reset", position=other.cursor.read_from(), begins_at=other.place(), notes=notes)


async def _at_bookmark(pool: ConnectionPool, topic: Topic, name: str) -> Target:
    position = await repeat_until_done(
        pool,
        lambda c: bookmark_store.find(c, topic.topic_id, name),
        what="looking for a bookmark",
    )
    if position is None:
        raise NothingToActOn(f"{topic.name} has no bookmark {name!r}")
    ledgers = topic.log.ledgers
    landing = ledgers.next_valid(position)
    # The bookmark may have been created at the log's end. If no message was stored after that, none is missing.
    is_gone = position < ledgers.first_position() and landing != ledgers.end()
    notes = (f"the bookmark's message is no longer kept; the next message is {landing}",) if is_gone else ()
    return Target(how="reset", position=landing, begins_at=position, notes=notes)


async def _shifted(topic: Topic, messages: int, cursor: Cursor | None) -> Target:
    if cursor is None:
        raise ActInvalid("shift counts from a cursor, and there is none yet: choose another place")
    (position, remaining), (before, after) = await with_index(
        topic.reader, lambda: (cursor.shifted_position(messages), cursor.shift_room())
    )
    notes: tuple[str, ...] = ()
    if messages > after:
        there = counted(after, "message is", "messages are")
        notes = (f"only {there} after the mark-delete position, so the cursor goes to the end",)
    elif -messages > before:
        there = counted(before, "message is", "messages are")
        notes = (
            (f"only {there} kept before the mark-delete position, so the cursor goes to the first of them",)
            if before
            else (
                "no message is kept before the mark-delete position, so the cursor goes to the first one kept",
            )
        )
    at = cursor.read_from()
    if cursor.remaining_of(at) is not None:
        notes += (
            (
                f"shift counts from the mark-delete position, {cursor.mark_delete}, so the acknowledged messages of the"
                f" next batch, {at}, count too"
            ),
        )
    return Target(how="reset", position=position, remaining=remaining, notes=notes)
