"""Find the dead-letter topic for the letters of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn
from broker.core.errors import BrokerError, NotAllowed, TopicNotFound
from broker.core.topic_name import TopicName
from vela.wire.errors import InvalidTopicName as NameTooLong
from vela.wire.letters import dead_letter_topic, legacy_dead_letter_name

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["LetterTopic", "find_letter_topic"]

_KEEP = "create one on it from the earliest message, or retention removes the letter unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic:
    """A dead-letter topic, and what an operator should know about it."""

    name: TopicName
    notes: tuple[str, ...]


async def find_letter_topic(
    context: ActContext, subscription: Subscription, given: str | None
) -> LetterTopic:
    """Return `given`, else the dead-letter topic that a connected consumer uses, else the one with the usual name.

    Raises ActInvalid if the topic cannot take letters.
    """
    name = TopicName.parse(given) if given is not None else await _usual(context, subscription)
    if name.base == subscription.log.name.base:
        raise ActInvalid(f"{name} is the topic of the message itself: name another dead-letter topic")
    if name.domain != "persistent":
        raise ActInvalid(
            f"{name} keeps no messages, so the letter would be lost: set to_topic to another topic"
        )
    try:
        await context.opener.partition_count(name, create=False)
    except TopicNotFound:
        if not await context.tools.creation.makes_topics(name):
            raise NothingToActOn(
                f"{name} does not exist, and its namespace does not let clients create topics: create it first"
            ) from None
        return LetterTopic(
            name=name,
            notes=(f"{name} does not exist and is created, without a subscription: {_KEEP}",),
        )
    return LetterTopic(name=name, notes=await _unread(context, name))


async def _usual(context: ActContext, subscription: Subscription) -> TopicName:
    named = {
        consumer.request.dead_letter_topic
        for consumer in subscription.consumers.values()
        if consumer.request.dead_letter_topic is not None
    }
    if named:
        return TopicName.parse(min(named))
    topic = subscription.log.name
    legacy = TopicName.parse(
        f"{topic.domain}://{topic.namespace_name}/{legacy_dead_letter_name(subscription.name)}"
    )
    try:
        await context.opener.partition_count(legacy, create=False)
    except TopicNotFound:
        pass
    else:
        return legacy
    try:
        return TopicName.parse(dead_letter_topic(topic.base, subscription.name))
    except (BrokerError, NameTooLong) as error:
        raise ActInvalid(
            f"the usual name of a dead-letter topic cannot be formed here, so set to_topic: {error}"
        ) from error


async def _unread(context: ActContext, name: TopicName) -> tuple[str, ...]:
    """Return a warning if nothing keeps the letter. Partitioned topics are not checked."""
    try:
        topic = await context.topics.open_named(name.full)
    except (NotAllowed, TopicNotFound):
        return ()
    if topic.is_terminated:
        raise ActInvalid(f"{name} is terminated and takes no letters: name another topic in to_topic")
    if any(each.is_durable for each in topic.subscriptions.values()):
        return ()
    return (f"{name} has no subscription: {_KEEP}",)
