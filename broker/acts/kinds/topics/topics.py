"""Terminate, truncate, unload and delete topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from broker.acts.kinds.base import ActConflict, ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.drift import Standing
from broker.acts.kinds.parameters import NoParameters, Rule
from broker.acts.kinds.topics.members import change_each, members
from broker.core.counted import counted
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as topic_store

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription
    from broker.topics.ending import DeleteFigures
    from broker.topics.topic import Topic

__all__ = ["Delete", "DeleteTopic", "TerminateTopic", "TruncateTopic", "UnloadTopic"]

_OPEN_AT_ONCE: Final = 8


async def _durable(context: ActContext, figures: DeleteFigures) -> list[tuple[Topic, Subscription]]:
    """Return the durable subscriptions. Load their topics first, because stored cursors may be out of date."""
    at_once = asyncio.Semaphore(_OPEN_AT_ONCE)

    async def opened(full_name: str) -> Topic:
        async with at_once:
            return await context.topics.open_named(full_name)

    # A topic may have thousands of partitions, so load only partitions with subscriptions.
    names = dict.fromkeys(topic for topic, _ in figures.subscriptions)
    topics = await asyncio.gather(
        *(opened(each) for each in names if TopicName.parse(each).domain == "persistent")
    )
    return [(topic, each) for topic in topics for each in topic.subscriptions.values() if each.is_durable]


async def _what_clients_do(context: ActContext, name: TopicName, figures: DeleteFigures) -> tuple[str, ...]:
    if not figures.producers and not figures.consumers:
        return ()
    if not await context.tools.creation.makes_topics(name):
        return ("clients that reconnect are refused (policy auto_create_topics)",)
    is_whole = figures.topics == (name.full,)
    created = "it again" if is_whole else "its partitions again, each as a separate topic"
    return (f"clients that reconnect create {created} (policy auto_create_topics)",)


def _clients(producers: int, consumers: int) -> str:
    return f"{counted(producers, 'producer', 'producers')} and {counted(consumers, 'consumer', 'consumers')}"


class TerminateTopic(DirectKind[NoParameters]):
    """End a topic, so that the topic accepts no more messages."""

    name = "terminate"
    summary = (
        "End a topic: it takes no more messages, and consumers are notified once they have acked everything."
    )
    scope = Scope.TOPIC
    no_undo = "it cannot be undone: a terminated topic never takes messages again"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        words = []
        for name in await members(context):
            topic = await context.topics.open(name, create=False)
            last = topic.log.ledgers.last_position()
            producers = counted(len(topic.producers), "producer is", "producers are")
            words.append(
                f"{name} is already terminated; its last entry is {last}"
                if topic.is_terminated
                else f"{name} ends with its last entry, now {last}; {producers} closed"
            )
        return Effect(words=tuple(words))

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        await change_each(context, await members(context), context.tools.endings.terminate)


class TruncateTopic(DirectKind[NoParameters]):
    """Skip the messages that were stored when the act was planned, and trim unneeded ledgers."""

    name = "truncate"
    summary = (
        "Empty a topic: subscriptions skip the stored messages, and ledgers are freed, except the open one and those"
        " that are pinned."
    )
    scope = Scope.TOPIC
    no_undo = "it cannot be undone: the messages are gone"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        pinned, names = _pinned(context), await members(context)
        if context.act.is_apply and (added := [each for each in names if each.full not in pinned]):
            raise ActConflict(f"{added[0]} was added after this plan; plan again")
        words, skipped, through = [], 0, {}
        for name in names:
            topic = await context.topics.open(name, create=False)
            found = await context.tools.truncator.measure(topic, pinned.get(name.full))
            compacted = topic.compacted.stored
            if context.act.is_apply and compacted is not None and compacted.horizon.position > found.through:
                raise ActConflict(f"{name} was compacted after this plan; plan again")
            through[name.full] = str(found.through)
            skipped += found.skipped_messages
            passed = counted(found.skipped_messages, "message not acked is", "messages not acked are")
            freed = counted(found.freed_bytes, "byte is", "bytes are")
            words.append(f"{name} is emptied up to {found.through}: {passed} skipped, {freed} freed now")
        return Effect(
            words=tuple(words),
            skipped_messages=skipped,
            notes=("messages pinned by an undo window or a bookmark stay, and so does the open ledger",),
            pinned=through,
        )

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        pinned = _pinned(context)
        await change_each(
            context,
            map(TopicName.parse, pinned),
            lambda topic: context.tools.truncator.truncate(topic, pinned[topic.name.full]),
        )


def _pinned(context: ActContext) -> dict[str, Position]:
    planned = context.act.plan or {}
    return {name: Position.parse(through) for name, through in planned.get("pinned", {}).items()}


class UnloadTopic(DirectKind[NoParameters]):
    """Remove a topic from memory until a client uses it again."""

    name = "unload"
    summary = (
        "Remove a topic from the broker's memory: its clients are closed and reconnect, and nothing is lost."
    )
    scope = Scope.TOPIC
    no_undo = "there is nothing to undo: the topic is loaded again when a client uses it"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        names = await members(context)
        loaded = [topic for each in names if (topic := context.topics.loaded.get(each.full)) is not None]
        producers = sum(len(topic.producers) for topic in loaded)
        consumers = sum(len(each.consumers) for topic in loaded for each in topic.subscriptions.values())
        return Effect(
            words=(
                f"{len(loaded)} of {counted(len(names), 'topic is', 'topics are')} in memory",
                f"{_clients(producers, consumers)} are closed and reconnect by themselves",
            ),
            consumers_closed=consumers,
        )

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        await context.tools.endings.unload(await members(context))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Options for deleting a topic that has clients or subscriptions."""

    force: Annotated[bool, Rule("close the clients that are connected and delete the subscriptions")] = False
    subscriptions: Annotated[bool, Rule("delete subscriptions without consumers")] = False


class DeleteTopic(DirectKind[Delete]):
    """Delete a topic with its partitions, messages, subscriptions and policies."""

    name = "delete_topic"
    summary = "Delete a topic with its partitions, messages and subscriptions."
    scope = Scope.TOPIC
    no_undo = "it cannot be undone: the messages are gone"
    closes_consumers = True
    parameters = Delete

    async def measure(self, context: ActContext, given: Delete) -> Effect:
        name = TopicName.parse(context.act.topic_name)
        figures = await context.tools.endings.delete_figures(
            name, force=given.force, with_subscriptions=given.subscriptions
        )
        clients_do = await _what_clients_do(context, name, figures)
        pinned = {"topic_id": await self._topic_id(context)}
        subscriptions_now = await _durable(context, figures)
        standing = Standing.of(each for _, each in subscriptions_now)
        unread = standing.unacked_messages
        topics = counted(len(figures.topics), "topic is", "topics are")
        subscriptions = counted(figures.subscription_count, "subscription is", "subscriptions are")
        return Effect(
            words=(
                f"{topics} deleted, with {counted(figures.stored_bytes, 'byte', 'bytes')} stored",
                f"{subscriptions} deleted, with {counted(unread, 'message', 'messages')} not acked",
                f"{_clients(figures.producers, figures.consumers)} are closed",
                *clients_do,
            ),
            skipped_messages=unread,
            consumers_closed=figures.consumers,
            pinned=pinned,
            standing=standing,
            published_per_s=sum(
                context.reports.rates.published_per_s(topic) for topic, _ in subscriptions_now
            ),
        )

    async def apply(self, context: ActContext, given: Delete) -> Mapping[str, Any]:
        planned = context.act.plan or {}
        topic_id = await self._topic_id(context)
        if topic_id is None:
            return Effect(
                words=(
                    (
                        "the topic was already deleted: by another act or a policy, or by a broker that died before it"
                        " stored the counts"
                    ),
                )
            ).to_json()
        if topic_id != planned["pinned"]["topic_id"]:
            raise ActConflict("the topic was deleted and created again after this plan; plan again")
        return await super().apply(context, given)

    async def carry_out(self, context: ActContext, given: Delete) -> None:
        await context.tools.endings.delete(
            TopicName.parse(context.act.topic_name),
            force=given.force,
            with_subscriptions=given.subscriptions,
        )

    async def _topic_id(self, context: ActContext) -> int | None:
        name = TopicName.parse(context.act.topic_name)
        row = await repeat_until_done(
            context.pool, lambda c: topic_store.find_topic(c, name), what="finding a topic"
        )
        return None if row is None else row.topic_id
