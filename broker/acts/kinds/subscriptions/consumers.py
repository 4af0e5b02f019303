"""Acts on connected consumers: let them go, or take back what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.core.counted import counted

if TYPE_CHECKING:
    from broker.subscription.consumer import Consumer

__all__ = ["Disconnect", "DisconnectWhom", "Redeliver", "WhichConsumer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichConsumer:
    """By name, or by the number that the console shows where several have one name."""

    consumer: Annotated[str | None, Rule("its name; every consumer of that name is meant")] = None
    consumer_key: Annotated[int | None, Rule("its number in the console, instead of a name", least=1)] = None

    def __post_init__(self) -> None:
        if (self.consumer is None) is (self.consumer_key is None):
            raise ActInvalid("name the consumer, by consumer or by consumer_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectWhom(WhichConsumer):
    """And why."""

    reason: Annotated[str, Rule("told to the client")] = "an operator disconnected it"


class Disconnect(DirectKind[DisconnectWhom]):
    """A client that reconnects by itself comes again."""

    name = "disconnect"
    summary = "Close a consumer; what it held goes to the others. Most clients connect again by themselves."
    parameters = DisconnectWhom

    async def measure(self, context: ActContext, given: DisconnectWhom) -> Effect:
        found = await _found(context, given)
        are, it = ("is", "it") if len(found) == 1 else ("are", "they")
        return Effect(
            words=(f"{_named(found)} {are} closed; {_delivered_again(found, it)}",),
            consumers_closed=len(found),
            consumers_kept=len((await context.subscription()).consumers) - len(found),
        )

    async def carry_out(self, context: ActContext, given: DisconnectWhom) -> None:
        subscription = await context.subscription()
        for consumer in await _found(context, given):
            consumer.closed_by_broker(given.reason)
            subscription.remove_consumer(consumer)


class Redeliver(DirectKind[WhichConsumer]):
    """As if the client had asked for it."""

    name = "redeliver"
    summary = "Take back what a consumer holds unacknowledged and deliver it again, now."
    parameters = WhichConsumer

    async def measure(self, context: ActContext, given: WhichConsumer) -> Effect:
        found = await _found(context, given)
        return Effect(
            words=(_delivered_again(found, _named(found)),),
            consumers_kept=len((await context.subscription()).consumers),
        )

    async def carry_out(self, context: ActContext, given: WhichConsumer) -> None:
        subscription = await context.subscription()
        for consumer in await _found(context, given):
            subscription.redeliver(consumer, None)


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


def _delivered_again(consumers: list[Consumer], who: str) -> str:
    held = sum(each.dispatch.unacked_messages for each in consumers)
    hold = "holds" if len(consumers) == 1 else "hold"
    return f"{counted(held, 'message', 'messages')} that {who} {hold} {'is' if held == 1 else 'are'} delivered again"


def _named(consumers: list[Consumer]) -> str:
    name = consumers[0].name
    return name if len(consumers) == 1 else f"{name} ({len(consumers)} consumers)"
