"""Create a topic, partitioned or not, before any client connects to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, Rule
from broker.core.counted import counted
from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as store
from broker.topics.partitions import MOST_PARTITIONS

if TYPE_CHECKING:
    from broker.storage.topics.topics import TopicRow

__all__ = ["CreateTopic", "NewTopic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """The new topic's name and number of partitions."""

    name: Annotated[str, Rule("name of the new topic, without tenant and namespace")]
    partitions: Annotated[
        int, Rule("number of partitions; 0: not partitioned", least=0, most=MOST_PARTITIONS)
    ] = 0


class CreateTopic(DirectKind[NewTopic]):
    """Create a topic in a namespace that exists. A topic that exists is never changed."""

    name = "create_topic"
    summary = "Create a topic, partitioned or not, in a namespace."
    scope = Scope.NAMESPACE
    no_undo = "to undo it, delete the topic"
    parameters = NewTopic

    async def measure(self, context: ActContext, given: NewTopic) -> Effect:
        name = _full_name(context, given)
        found = await _find(context, name)
        # An apply may find the topic created: a broker died before it stored the result, or a client was quicker.
        if found is not None and not (context.act.is_apply and found.partitions == given.partitions):
            raise ActInvalid(f"{name} already exists, {_shape(found.partitions)}; choose another name")
        return Effect(words=(f"{name} is created, {_shape(given.partitions)}",))

    async def carry_out(self, context: ActContext, given: NewTopic) -> None:
        await context.tools.creation.make(_full_name(context, given), given.partitions)


def _full_name(context: ActContext, given: NewTopic) -> TopicName:
    if "/" in given.name:
        raise ActInvalid(f"name is {given.name!r}: give only what comes after {context.act.topic_name}/")
    name = TopicName.parse(f"persistent://{context.act.topic_name}/{given.name}")
    if name.partition is not None:
        raise ActInvalid(
            f"{given.name} would be a partition: leave out -partition-{name.partition} and set partitions"
        )
    return name


async def _find(context: ActContext, name: TopicName) -> TopicRow | None:
    return await repeat_until_done(context.pool, lambda c: store.find_topic(c, name), what="finding a topic")


def _shape(partitions: int) -> str:
    return f"with {counted(partitions, 'partition', 'partitions')}" if partitions else "not partitioned"
