"""Making a topic before anybody connects to it, partitioned or not."""

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
    """A name in the namespace."""

    name: Annotated[str, Rule("its name in the namespace, without tenant and namespace")]
    partitions: Annotated[
        int, Rule("so many partitions; 0: it is not partitioned", least=0, most=MOST_PARTITIONS)
    ] = 0


class CreateTopic(DirectKind[NewTopic]):
    """In a namespace that exists. What exists is never changed."""

    name = "create_topic"
    summary = "Make a topic, partitioned or not, in a namespace."
    scope = Scope.NAMESPACE
    no_undo = "delete_topic removes it again"
    parameters = NewTopic

    async def measure(self, context: ActContext, given: NewTopic) -> Effect:
        name = _full_name(context, given)
        found = await _find(context, name)
        # An apply may find it made: the broker died before it could say so, or a client was quicker.
        if found is not None and not (context.act.is_apply and found.partitions == given.partitions):
            raise ActInvalid(f"{name} exists already, {_shape(found.partitions)}; choose another name")
        return Effect(words=(f"{name} is made, {_shape(given.partitions)}",))

    async def carry_out(self, context: ActContext, given: NewTopic) -> None:
        await context.tools.creation.make(_full_name(context, given), given.partitions)


def _full_name(context: ActContext, given: NewTopic) -> TopicName:
    if "/" in given.name:
        raise ActInvalid(f"name is {given.name!r}: give what comes after {context.act.topic_name}/")
    name = TopicName.parse(f"persistent://{context.act.topic_name}/{given.name}")
    if name.partition is not None:
        raise ActInvalid(
            f"{given.name} would be a partition: name the topic without -partition-{name.partition} and say how many"
        )
    return name


async def _find(context: ActContext, name: TopicName) -> TopicRow | None:
    return await repeat_until_done(context.pool, lambda c: store.find_topic(c, name), what="finding a topic")


def _shape(partitions: int) -> str:
    return f"with {counted(partitions, 'partition', 'partitions')}" if partitions else "not partitioned"
