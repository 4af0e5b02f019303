"""Create and delete bookmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from broker.acts.kinds.base import ActConflict, ActContext, Scope
from broker.acts.kinds.cursors.change import Target
from broker.acts.kinds.cursors.reset import Place, find_place
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, AlreadySo, NothingToActOn, Rule
from broker.core.errors import BrokerError, TopicFenced
from broker.core.subscription.types import check_storable
from broker.storage.acts import bookmarks as store
from broker.storage.pool import repeat_until_done

__all__ = ["BookmarkName", "CreateBookmark", "DeleteBookmark", "NewBookmark"]

_WEEK_MS: Final = 7 * 24 * 3600 * 1000
_MOST_MS: Final = 100 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBookmark(Place):
    """The name and the place of a new bookmark."""

    name: Annotated[str, Rule("name of the new bookmark, unique on the topic")]
    keep_ms: Annotated[
        int, Rule("how long it pins the messages after it; 0: until it is deleted", least=0, most=_MOST_MS)
    ] = _WEEK_MS

    def __post_init__(self) -> None:
        Place.__post_init__(self)
        if not self.name or self.name != self.name.strip():
            raise ActInvalid(f"bookmark name {self.name!r}: use one without spaces around it")
        try:
            check_storable("bookmark", self.name)
        except BrokerError as error:
            raise ActInvalid(str(error)) from error
        if self.to in ("shift", "bookmark"):
            raise ActInvalid(f"a bookmark cannot be created with to={self.to}: choose another place")


class CreateBookmark(DirectKind[NewBookmark]):
    """Create a bookmark."""

    name = "create_bookmark"
    summary = "Name a place in a topic, so that cursors can be reset to it. The bookmark pins the messages after it."
    scope = Scope.TOPIC
    no_undo = "to undo it, delete the bookmark"
    takes_partitions = True
    leaves_out = (AlreadySo,)
    parameters = NewBookmark

    def why_one_partition(self, given: NewBookmark) -> str:
        return "" if given.to != "id" else "a message id names a place in one partition"

    async def measure(self, context: ActContext, given: NewBookmark) -> Effect:
        topic = await context.topic()
        if not context.act.is_apply and await _find(context, given.name) is not None:
            raise AlreadySo(f"{topic.name} already has a bookmark {given.name}")
        target = await _target(context, given)
        notes = target.notes
        if target.remaining is not None:
            notes = (*notes, "the place is inside a batch: the bookmark is at the batch's first message")
        kept = "until it is deleted" if not given.keep_ms else f"for {given.keep_ms / 3_600_000:g} h"
        return Effect(
            words=(
                f"{given.name} is at {target.position}; it pins the messages after it {kept}, within the quota",
            ),
            notes=notes,
            pinned=target.to_json(),
        )

    async def carry_out(self, context: ActContext, given: NewBookmark) -> None:
        topic, target = await context.topic(), await _target(context, given)
        # Trimming holds this lock while it reads bookmarks and drops ledgers.
        async with topic.subscriptions.creating:
            stored = await topic.write(
                lambda connection, epoch: store.create(
                    connection,
                    topic_id=topic.topic_id,
                    owner_epoch=epoch,
                    name=given.name,
                    position=target.position,
                    keep_ms=given.keep_ms,
                    who=context.act.who,
                ),
                what="creating a bookmark",
            )
        if stored is None:
            raise TopicFenced(f"{topic.name} moved to another broker; plan again")
        if (found := await _find(context, given.name)) != target.position:
            raise ActConflict(f"{given.name} is already at {found}: plan again with another name")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkName:
    """The bookmark to delete."""

    name: Annotated[str, Rule("name of the bookmark")]


class DeleteBookmark(DirectKind[BookmarkName]):
    """Delete a bookmark."""

    name = "delete_bookmark"
    summary = "Delete a bookmark. The topic's retention applies again to the messages that it pinned."
    scope = Scope.TOPIC
    no_undo = "it cannot be undone: the messages that it pinned may be trimmed at once"
    takes_partitions = True
    leaves_out = (NothingToActOn,)
    parameters = BookmarkName

    async def measure(self, context: ActContext, given: BookmarkName) -> Effect:
        found = await _find(context, given.name)
        if found is None and not context.act.is_apply:
            raise NothingToActOn(f"{context.act.topic_name} has no bookmark {given.name}")
        return Effect(words=(f"{given.name}{'' if found is None else f' at {found}'} is deleted",))

    async def carry_out(self, context: ActContext, given: BookmarkName) -> None:
        topic = await context.topic()
        stored = await topic.write(
            lambda connection, epoch: store.delete(
                connection, topic_id=topic.topic_id, owner_epoch=epoch, name=given.name
            ),
            what="deleting a bookmark",
        )
        if stored is None:
            raise TopicFenced(f"{topic.name} moved to another broker; plan again")


async def _target(context: ActContext, given: NewBookmark) -> Target:
    if context.act.is_apply and context.act.plan is not None:
        return Target.from_json(context.act.plan["pinned"])
    return await find_place(context, await context.topic(), given, None)


async def _find(context: ActContext, name: str) -> object:
    topic = await context.topic()
    return await repeat_until_done(
        context.pool, lambda c: store.find(c, topic.topic_id, name), what="looking for a bookmark"
    )
