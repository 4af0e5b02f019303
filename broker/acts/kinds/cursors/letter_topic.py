"""Find the dead-letter topic of a subscription, and protect dead letters from retention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.reset import Place, find_place
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn
from broker.core.errors import BrokerError, NotAllowed, TopicNotFound
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from vela.wire.errors import InvalidTopicName as NameTooLong
from vela.wire.letters import dead_letter_topic, legacy_dead_letter_name

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["READER", "LetterTopic", "find_letter_topic", "keep_letters"]

READER: Final = "letters"  # Subscription that protects dead letters from retention
_KEPT: Final = (
    f"the subscription {READER} is created on it, starting at the earliest message, so that retention keeps the"
    " letters"
)
_LOST: Final = "retention removes the letter unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic:
    """A dead-letter topic, and notes for an operator."""

    name: TopicName
    is_unread: bool = False  # If True, the topic has no durable subscription
    notes: tuple[str, ...] = ()


async def find_letter_topic(
    context: ActContext, subscription: Subscription, given: str | None, *, keep: bool
) -> LetterTopic:
    """Return the given topic, or else a connected consumer's dead-letter topic, or else the default topic.

    The argument `keep` affects only the notes. Raises ActInvalid if the topic cannot store dead letters.
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
            is_unread=True,
            notes=(f"{name} does not exist and is created: {_what_becomes(keep)}",),
        )
    if not await _is_unread(context, name):
        return LetterTopic(name=name)
    return LetterTopic(
        name=name, is_unread=True, notes=(f"{name} has no subscription: {_what_becomes(keep)}",)
    )


async def keep_letters(context: ActContext, topic: str) -> None:
    """Create a subscription at the earliest message, unless the topic has a durable subscription. Safe to repeat.

    Does nothing on a partitioned topic. Raises BrokerError if no subscription can be created.
    """
    try:
        opened = await context.topics.open_named(topic)
    except NotAllowed:
        return
    if not any(each.is_durable for each in opened.subscriptions.values()):
        earliest = await find_place(context, opened, Place(to="earliest"), None)
        await opened.subscriptions.find_or_create(READER, SubscriptionType.SHARED, earliest.position, {})


def _what_becomes(keep: bool) -> str:
    return _KEPT if keep else _LOST


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


async def _is_unread(context: ActContext, name: TopicName) -> bool:
    try:
        topic = await context.topics.open_named(name.full)
    except (NotAllowed, TopicNotFound):
        return False
    if topic.is_terminated:
        raise ActInvalid(f"{name} is terminated and takes no letters: name another topic in to_topic")
    return not any(each.is_durable for each in topic.subscriptions.values())
