"""Add partitions to a partitioned topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import Rule
from broker.core.counted import counted
from broker.core.topic_name import MOST_PARTITIONS, TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import partitions as store
from broker.topics import partitions

if TYPE_CHECKING:
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.topic import Topic

__all__ = ["Partitions", "UpdatePartitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The new number of partitions."""

    partitions: Annotated[
        int, Rule("number of partitions in all, not fewer than now", least=1, most=MOST_PARTITIONS)
    ]


class UpdatePartitions(DirectKind[Partitions]):
    """Add partitions to a topic."""

    name = "update_partitions"
    summary = "Add partitions to a partitioned topic, each with the subscriptions that the others have."
    scope = Scope.TOPIC
    no_undo = "it cannot be undone: a topic never gets fewer partitions"
    parameters = Partitions

    async def measure(self, context: ActContext, given: Partitions) -> Effect:
        name, pool = TopicName.parse(context.act.topic_name), context.pool
        before = await partitions.check_growth(pool, name, given.partitions)
        if before == given.partitions:
            return Effect(words=(f"{name} already has {counted(before, 'partition', 'partitions')}",))
        found = await repeat_until_done(
            pool, lambda c: store.subscription_names(c, name.full), what="looking for subscriptions"
        )
        shown = ", ".join(found[:10]) + (" …" if len(found) > 10 else "")
        return Effect(
            words=(
                f"{name} gets partition {before}"
                if given.partitions == before + 1
                else f"{name} gets partitions {before} to {given.partitions - 1}",
                f"each with {counted(len(found), 'subscription', 'subscriptions')} from its beginning: {shown}"
                if found
                else "there are no subscriptions to create on them",
            ),
            notes=(
                "producers then use all partitions, so messages with a key may go to another partition than before",
                "clients of the WebSocket API are disconnected, and connect again",
            ),
        )

    async def carry_out(self, context: ActContext, given: Partitions) -> None:
        name = TopicName.parse(context.act.topic_name)
        growth = await partitions.grow(context.pool, name, given.partitions)
        if growth.after > growth.before:
            in_memory: list[Topic | NonPersistentTopic] = [
                *context.topics.all(),
                *context.non_persistent.all(),
            ]
            partitions.close_json_sockets(
                (topic for topic in in_memory if topic.name.base == name.full),
                f"{name} has {growth.after} partitions now: connect again",
            )
