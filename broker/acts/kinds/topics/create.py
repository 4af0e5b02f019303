"""Create a topic, partitioned or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from broker.acts.kinds.base import ActContext, PartlyDone, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, Rule
from broker.core.counted import counted
from broker.core.errors import BrokerError
from broker.core.policies import PolicyInvalid, PolicyLevel
from broker.core.topic_name import MOST_PARTITIONS, TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as store
from broker.topics import policies
from broker.topics.policies import Holder

if TYPE_CHECKING:
    from broker.storage.topics.topics import TopicRow

__all__ = ["CreateTopic", "NewTopic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """The topic to create."""

    name: Annotated[str, Rule("name of the new topic, without tenant and namespace")]
    partitions: Annotated[
        int, Rule("number of partitions; 0: not partitioned", least=0, most=MOST_PARTITIONS)
    ] = 0
    domain: Annotated[
        Literal["persistent", "non-persistent"], Rule("non-persistent: the topic stores no messages")
    ] = "persistent"
    properties: Annotated[Mapping[str, str], Rule("properties to store with the topic")] = field(
        default_factory=dict
    )
    policies: Annotated[
        Mapping[str, str], Rule("policies to set on the new topic, by name; values are text")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            policies.parsed(self.policies, PolicyLevel.TOPIC)
        except PolicyInvalid as error:
            raise ActInvalid(str(error)) from error


class CreateTopic(DirectKind[NewTopic]):
    """Create a topic in an existing namespace."""

    name = "create_topic"
    summary = "Create a topic, partitioned or not, in a namespace."
    scope = Scope.NAMESPACE
    no_undo = "to undo it, delete the topic"
    parameters = NewTopic

    async def measure(self, context: ActContext, given: NewTopic) -> Effect:
        name = _full_name(context, given)
        found = await _find(context, name)
        # Apply the act even if the same topic exists, because a client or an earlier attempt may have created it.
        if found is not None and not (context.act.is_apply and found.partitions == given.partitions):
            raise ActInvalid(f"{name} already exists, {_shape(found.partitions)}; choose another name")
        policy_words = [f"its policy {each} is {value}" for each, value in sorted(given.policies.items())]
        return Effect(words=(f"{name} is created, {_shape(given.partitions)}", *policy_words))

    async def carry_out(self, context: ActContext, given: NewTopic) -> None:
        name = _full_name(context, given)
        await context.tools.creation.make(name, given.partitions, given.properties)
        found = await _find(context, name)
        if found is not None and found.partitions != given.partitions:
            raise ActInvalid(f"{name} was created meanwhile, {_shape(found.partitions)}; choose another name")
        after = policies.parsed(given.policies, PolicyLevel.TOPIC)
        if not after:
            return
        holder = Holder.of_topic(name)
        before = (await context.tools.policies.documents.read(holder)).document
        if before and before != after:
            raise ActInvalid(
                f"{name} was created with other policies after this plan, and they stay: change them there"
            )
        if before != after:
            try:
                await context.tools.policies.change(holder, before=before, after=after)
            except BrokerError as error:
                raise PartlyDone(
                    f"{name} exists now, but its policies were not set: {error}; set them there", result={}
                ) from error


def _full_name(context: ActContext, given: NewTopic) -> TopicName:
    if "/" in given.name:
        raise ActInvalid(
            f"the parameter name is {given.name!r}: give only what comes after {context.act.topic_name}/"
        )
    name = TopicName.parse(f"{given.domain}://{context.act.topic_name}/{given.name}")
    if name.partition is not None:
        raise ActInvalid(
            f"{given.name} would be a partition: leave out -partition-{name.partition} and set the parameter partitions"
        )
    return name


async def _find(context: ActContext, name: TopicName) -> TopicRow | None:
    return await repeat_until_done(context.pool, lambda c: store.find_topic(c, name), what="finding a topic")


def _shape(partitions: int) -> str:
    return f"with {counted(partitions, 'partition', 'partitions')}" if partitions else "not partitioned"
