"""Close connected consumers, or redeliver their unacked messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.core.counted import counted
from broker.core.subscription.story_rows import StoryEvent

if TYPE_CHECKING:
    from broker.subscription.consumer import Consumer

__all__ = ["Disconnect", "Disconnection", "Redeliver", "WhichConsumer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichConsumer:
    """The consumers with this name, or the consumer with this number."""

    consumer: Annotated[str | None, Rule("name; the act applies to every consumer with this name")] = None
    consumer_key: Annotated[
        int | None, Rule("the consumer's number in `vela consumers`, instead of a name", least=1)
    ] = None

    def __post_init__(self) -> None:
        if (self.consumer is None) is (self.consumer_key is None):
            raise ActInvalid("give exactly one of consumer and consumer_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnection(WhichConsumer):
    """The consumers to close, and the reason."""

    reason: Annotated[str, Rule("reason that the broker gives the client")] = "an operator disconnected it"


class Disconnect(DirectKind[Disconnection]):
    """Close consumers."""

    name = "disconnect"
    summary = (
        "Close a consumer. Its unacked messages go to other consumers. Most clients reconnect by themselves."
    )
    takes_partitions = True
    leaves_out = (NothingToActOn,)
    parameters = Disconnection

    async def measure(self, context: ActContext, given: Disconnection) -> Effect:
        found = await _found(context, given)
        are, they_have = ("is", "it has") if len(found) == 1 else ("are", "they have")
        return Effect(
            words=(f"{_named(found)} {are} closed; {_delivered_again(found, they_have)}",),
            consumers_closed=len(found),
            consumers_kept=len((await context.subscription()).consumers) - len(found),
        )

    async def carry_out(self, context: ActContext, given: Disconnection) -> None:
        subscription = await context.subscription()
        for consumer in await _found(context, given):
            consumer.closed_by_broker(given.reason)
            subscription.remove_consumer(consumer)


class Redeliver(DirectKind[WhichConsumer]):
    """Redeliver a consumer's unacked messages."""

    name = "redeliver"
    summary = "Take back the messages that a consumer has not acked and deliver them again now."
    takes_partitions = True
    leaves_out = (NothingToActOn,)
    parameters = WhichConsumer

    async def measure(self, context: ActContext, given: WhichConsumer) -> Effect:
        found = await _found(context, given)
        return Effect(
            words=(_delivered_again(found, f"{_named(found)} {'has' if len(found) == 1 else 'have'}"),),
            consumers_kept=len((await context.subscription()).consumers),
        )

    async def carry_out(self, context: ActContext, given: WhichConsumer) -> None:
        subscription = await context.subscription()
        for consumer in await _found(context, given):
            subscription.redeliver(consumer, None, StoryEvent.TAKEN_BACK)


async def _found(context: ActContext, given: WhichConsumer) -> list[Consumer]:
    subscription = await context.subscription()
    found = [
        each
        for each in subscription.consumers.values()
        if (each.key == given.consumer_key if given.consumer is None else each.name == given.consumer)
    ]
    if not found:
        who = f"number {given.consumer_key}" if given.consumer is None else repr(given.consumer)
        raise NothingToActOn(f"no consumer {who} is connected to {subscription.name}")
    return found


def _delivered_again(consumers: list[Consumer], they_have: str) -> str:
    unacked = sum(each.dispatch.unacked_messages for each in consumers)
    are = "is" if unacked == 1 else "are"
    return f"{counted(unacked, 'message', 'messages')} that {they_have} not acked {are} delivered again"


def _named(consumers: list[Consumer]) -> str:
    name = consumers[0].name
    return f"consumer {name}" if len(consumers) == 1 else f"{len(consumers)} consumers named {name}"
