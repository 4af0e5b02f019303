"""Create and delete subscriptions, and replace their properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.cursors.change import Target
from broker.acts.kinds.cursors.reset import Place, find_place
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.drift import Standing
from broker.acts.kinds.parameters import ActInvalid, AlreadySo, NothingToActOn, Rule
from broker.core.counted import counted
from broker.core.errors import BrokerError
from broker.core.subscription.types import SubscriptionType, check_name
from broker.storage.pool import repeat_until_done
from broker.storage.topics import catalogue

if TYPE_CHECKING:
    from broker.topics.topic import Topic

__all__ = [
    "CreateSubscription",
    "DeleteSubscription",
    "Force",
    "NewSubscription",
    "SetSubscriptionProperties",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubscription(Place):
    """The new subscription's name, start position, type and properties."""

    name: Annotated[str, Rule("name of the new subscription, unique on the topic")]
    type: Annotated[
        Literal["Exclusive", "Shared", "Failover", "Key_Shared"],
        Rule("type of the subscription until its first consumer connects"),
    ] = "Shared"
    properties: Annotated[Mapping[str, str], Rule("properties to store with the subscription")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        Place.__post_init__(self)
        try:
            check_name(self.name)
        except BrokerError as error:
            raise ActInvalid(str(error)) from error
        if self.to == "shift":
            raise ActInvalid("shift counts from a cursor, and there is none yet: choose another place")


class CreateSubscription(DirectKind[NewSubscription]):
    """Create a subscription before its first consumer connects."""

    name = "create_subscription"
    summary = "Create a subscription that begins at a chosen place."
    scope = Scope.TOPIC
    no_undo = "to undo it, delete the subscription"
    takes_partitions = True
    leaves_out = (AlreadySo,)
    parameters = NewSubscription

    def why_one_partition(self, given: NewSubscription) -> str:
        return "" if given.to != "id" else "a message id names a place in one partition"

    async def measure(self, context: ActContext, given: NewSubscription) -> Effect:
        topic = await context.topic()
        if given.name in topic.subscriptions:
            if not context.act.is_apply:
                raise AlreadySo(f"{topic.name} already has a subscription {given.name}")
            # A client or an earlier attempt may have created the subscription after the act was planned.
            return Effect(words=(f"{given.name} exists already, and stays where it is",))
        target = await _target(context, given)
        state = await topic.subscriptions.cursor_starting_at(target.position, target.remaining)
        waiting = topic.log.ledgers.total_messages - state.acked_messages
        wait = counted(waiting, "message waits", "messages wait")
        begin = target.first_message(topic.name.partition)
        return Effect(
            words=(f"{given.name} begins at {begin}; {wait} for it",),
            notes=target.notes,
            pinned=target.to_json(),
        )

    async def carry_out(self, context: ActContext, given: NewSubscription) -> None:
        topic, target = await context.topic(), await _target(context, given)
        await topic.subscriptions.find_or_create(
            given.name,
            SubscriptionType(given.type),
            target.position,
            dict(given.properties),
            remaining=target.remaining,
            begins_at=target.begins_at,
        )


async def _target(context: ActContext, given: NewSubscription) -> Target:
    if context.act.is_apply and context.act.plan is not None:
        return Target.from_json(context.act.plan["pinned"])
    return await find_place(context, await context.topic(), given, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """Whether to delete a subscription that has connected consumers."""

    force: Annotated[bool, Rule("close the consumers that are connected")] = False


class DeleteSubscription(DirectKind[Force]):
    """Delete a subscription and its cursor."""

    name = "delete_subscription"
    summary = "Delete a subscription with its cursor. Messages that it has not acked are not delivered."
    closes_consumers = True
    takes_partitions = True
    leaves_out = (NothingToActOn,)
    parameters = Force

    async def measure(self, context: ActContext, given: Force) -> Effect:
        subscription = await context.subscription()
        connected = len(subscription.consumers)
        if connected and not given.force:
            users = counted(connected, "consumer uses", "consumers use")
            raise ActInvalid(f"{users} {subscription.name}: disconnect the consumers, or set force to true")
        standing = Standing.of([subscription])
        backlog = standing.unacked_messages
        topic = await context.topic()
        return Effect(
            words=(
                f"{subscription.name} is deleted with {counted(backlog, 'message', 'messages')} that it has not acked",
                *_what_consumers_do(topic, connected),
            ),
            skipped_messages=backlog,
            consumers_closed=connected,
            standing=standing,
            published_per_s=context.reports.rates.published_per_s(topic),
        )

    async def already_done(self, context: ActContext) -> Effect | None:
        topic = await context.topic()
        if context.act.subscription_id is None and context.act.subscription_name not in topic.subscriptions:
            return Effect(
                words=(
                    (
                        "the subscription was already deleted: by another act, a client or a policy, or by a broker"
                        " that died before it stored the counts"
                    ),
                )
            )
        return None

    async def carry_out(self, context: ActContext, given: Force) -> None:
        subscription = await context.subscription()
        await subscription.moves.remove(f"an operator deleted the subscription (act {context.act.act_id})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionProperties:
    """The new properties of a subscription."""

    properties: Annotated[Mapping[str, str], Rule("new properties; they replace all existing ones")]


class SetSubscriptionProperties(DirectKind[SubscriptionProperties]):
    """Replace the properties of a subscription."""

    name = "set_subscription_properties"
    summary = "Replace the properties that are stored with a subscription."
    can_be_requested = False  # Only the admin API creates this act, so `requests.plan` refuses it
    no_undo = "to undo it, set the earlier properties"
    takes_partitions = True
    parameters = SubscriptionProperties

    async def measure(self, context: ActContext, given: SubscriptionProperties) -> Effect:
        await context.subscription()
        count = counted(len(given.properties), "property", "properties")
        return Effect(words=(f"{context.act.subscription_name} gets {count}",))

    async def carry_out(self, context: ActContext, given: SubscriptionProperties) -> None:
        act = context.act
        await repeat_until_done(
            context.pool,
            lambda c: catalogue.set_subscription_properties(
                c, act.topic_name, act.subscription_name, given.properties
            ),
            what="storing a subscription's properties",
        )


def _what_consumers_do(topic: Topic, connected: int) -> tuple[str, ...]:
    if not connected:
        return ()
    after = (
        "create it again, at their own initial position"
        if topic.policies.auto_create_subscriptions
        else "are refused"
    )
    return (
        f"{counted(connected, 'consumer is', 'consumers are')} closed",
        f"consumers that reconnect {after} (policy auto_create_subscriptions)",
    )
