"""Expire messages up to a time or a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.change import Change, Target
from broker.acts.kinds.cursors.cursor_kind import CursorKind
from broker.acts.kinds.cursors.message_place import find_message
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.core.position import EARLIEST
from broker.subscription.expiry import expire_target

if TYPE_CHECKING:
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Expire", "ExpireTo"]

_NEEDS = {"time": "time_ms", "older": "older_ms", "id": "id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTo:
    """The place up to which messages expire."""

    to: Annotated[Literal["time", "older", "id"], Rule("how the place is given")]
    time_ms: Annotated[
        int | None, Rule("with time: messages stored before it expire; ms since 1970", least=0)
    ] = None
    older_ms: Annotated[
        int | None, Rule("with older: messages older than this when the act is planned expire", least=1)
    ] = None
    id: Annotated[
        str | None, Rule("with id: this message and all before it; ledger:entry[:partition[:index]]")
    ] = None

    def __post_init__(self) -> None:
        for way, name in _NEEDS.items():
            is_given = getattr(self, name) is not None
            if way == self.to and not is_given:
                raise ActInvalid(f"to {self.to} needs {name}")
            if way != self.to and is_given:
                raise ActInvalid(f"{name} does not belong to {self.to}: leave it out")


class Expire(CursorKind[ExpireTo]):
    """Move the mark-delete position forward."""

    name = "expire"
    summary = (
        "Count every message before a time, or up to a message, as acked, whether it was delivered or not."
    )
    parameters = ExpireTo

    def message_id(self, given: ExpireTo) -> str | None:
        return given.id

    async def find(self, context: ActContext, subscription: Subscription, given: ExpireTo) -> Change:
        topic = await context.topic()
        if given.to == "id":
            target = await _through_id(context.pool, topic, given.id or "")
        else:
            before_ms = given.time_ms
            if before_ms is None:
                before_ms = context.clock.now_ms() - (given.older_ms or 0)
            found = await expire_target(subscription, before_ms)
            target = Target(how="move", position=found or EARLIEST)
        if target.position < subscription.cursor.mark_delete:
            note = "every message up to there is already acknowledged"
            return Target(how="move", position=subscription.cursor.mark_delete, notes=(note,)).as_change()
        return target.as_change()


async def _through_id(pool: ConnectionPool, topic: Topic, text: str) -> Target:
    place = await find_message(pool, topic, text)
    ledgers = topic.log.ledgers
    if not place.is_stored:
        if place.position > ledgers.last_position():
            raise NothingToActOn(f"{text} is after the last message, {ledgers.last_position()}")
        return Target(how="move", position=ledgers.floor(place.position))
    if place.index is None or place.index + 1 >= place.messages:
        return Target(how="move", position=place.position)
    remaining = place.everything & ~((1 << (place.index + 1)) - 1)
    return Target(how="move", position=ledgers.previous_of(place.position), remaining=remaining)
