"""Making a subscription at a place, and removing one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.cursors.cursor_kind import Target
from broker.acts.kinds.cursors.reset import Place, find_place
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.drift import Standing
from broker.acts.kinds.parameters import ActInvalid, Rule
from broker.core.counted import counted
from broker.core.errors import BrokerError
from broker.core.subscription.types import SubscriptionType, check_name

if TYPE_CHECKING:
    from broker.topics.topic import Topic

__all__ = ["CreateSubscription", "DeleteSubscription", "Force", "NewSubscription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubscription(Place):
    """A name, a place and what clients give with it."""

    name: Annotated[str, Rule("its name, new on the topic")]
    type: Annotated[
        Literal["Exclusive", "Shared", "Failover", "Key_Shared"],
        Rule("until its first consumer says what it uses"),
    ] = "Shared"
    properties: Annotated[Mapping[str, str], Rule("kept with the subscription")] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Place.__post_init__(self)
        try:
            check_name(self.name)
        except BrokerError as error:
            raise ActInvalid(str(error)) from error
        if self.to == "shift":
            raise ActInvalid("shift counts from a cursor, and there is none yet: choose another place")


class CreateSubscription(DirectKind[NewSubscription]):
    """Before its first consumer comes."""

    name = "create_subscription"
    summary = "Make a subscription whose first message is at a chosen place."
    scope = Scope.TOPIC
    no_undo = "delete_subscription removes it again"
    parameters = NewSubscription

    async def measure(self, context: ActContext, given: NewSubscription) -> Effect:
        topic = await context.topic()
        # An apply may find it made: the broker died before it could say so.
        if given.name in topic.subscriptions and not context.act.is_apply:
            raise ActInvalid(f"{topic.name} has a subscription {given.name} already")
        target = await _target(context, given)
        state = await topic.subscriptions.cursor_starting_at(target.position, target.remaining)
        waiting = topic.log.ledgers.total_messages - state.acked_messages
        wait = counted(waiting, "message waits", "messages wait")
        return Effect(
            words=(f"{given.name} begins at {target.position}; {wait} for it",),
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
        )


async def _target(context: ActContext, given: NewSubscription) -> Target:
    """Where it begins: what the plan said, once there is one."""
    if context.act.is_apply and context.act.plan is not None:
        return Target.from_json(context.act.plan["pinned"])
    return await find_place(context, await context.topic(), given, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """Whether consumers are in the way."""

    force: Annotated[bool, Rule("close consumers that are connected")] = False


class DeleteSubscription(DirectKind[Force]):
    """With its cursor; the log stays."""

    name = "delete_subscription"
    summary = "Remove a subscription with its cursor; what it had not acked is not delivered any more."
    closes_consumers = True
    parameters = Force

    async def measure(self, context: ActContext, given: Force) -> Effect:
        subscription = await context.subscription()
        connected = len(subscription.consumers)
        if connected and not given.force:
            users = counted(connected, "consumer uses", "consumers use")
            raise ActInvalid(f"{users} {subscription.name}: close what is connected, or use force")
        standing = Standing.of([subscription])
        backlog = standing.unacked_messages
        topic = await context.topic()
        return Effect(
            words=(
                f"{subscription.name} is removed with {counted(backlog, 'message', 'messages')} that it has not acked",
                *_what_consumers_do(topic, connected),
            ),
            skipped_messages=backlog,
            consumers_closed=connected,
            standing=standing,
            published_per_s=context.reports.rates.published_per_s(topic),
        )

    async def apply(self, context: ActContext, given: Force) -> Mapping[str, Any]:
        topic = await context.topic()
        if context.act.subscription_id is None and context.act.subscription_name not in topic.subscriptions:
            gone = Effect(words=("it was removed before a broker died; its counts are not known",))
            return gone.to_json()
        return await super().apply(context, given)

    async def carry_out(self, context: ActContext, given: Force) -> None:
        subscription = await context.subscription()
        await subscription.moves.remove(f"an operator removed the subscription (act {context.act.act_id})")


def _what_consumers_do(topic: Topic, connected: int) -> tuple[str, ...]:
    """Those that are closed come again: what they then find, or make. Nothing where there are none."""
    if not connected:
        return ()
    after = (
        "make it anew, at their own initial position"
        if topic.policies.auto_create_subscriptions
        else "are refused"
    )
    return (
        f"{counted(connected, 'consumer is', 'consumers are')} closed",
        f"consumers that come again {after} (policy auto_create_subscriptions)",
    )
