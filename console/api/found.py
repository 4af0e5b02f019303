"""Find the namespace, topic, message or subscription that a request names, or raise Problem."""

from __future__ import annotations

from broker.acts.requests import ActRefused, check_topic_name
from console.api.problems import Problem
from console.messages.asked import read_spot
from console.messages.message import FoundMessage, MessageMissing, find_message
from console.queries.numbers import CursorRow, TopicFacts, cursors_named, topic_facts
from console.queries.rights import Scope
from console.queries.subscription import SubscriptionHead, subscription_head
from console.queries.topics.log import ends_of
from console.queries.topics.namespaces import namespace
from console.queries.topics.topic import TopicHead, topic_head

__all__ = [
    "found_cursors",
    "found_head",
    "found_message",
    "found_subscription",
    "found_topic",
    "require_namespace",
]


def require_namespace(full_name: str, scope: Scope) -> None:
    """Raise Problem if the namespace does not exist or the user may not see it."""
    tenant, _, name = full_name.partition("/")
    found = namespace(tenant, name)
    if found is None or (scope.namespace_ids is not None and found.id not in scope.namespace_ids):
        raise Problem(404, "NamespaceNotFound", f"there is no namespace {full_name}")


def found_topic(name: str) -> TopicFacts:
    """Return a topic by its full name, or raise Problem."""
    facts = topic_facts(name)
    if facts is None:
        try:
            check_topic_name(name)
        except ActRefused as refused:
            raise Problem(400, refused.code, refused.text) from refused
        raise Problem(404, "TopicNotFound", f"there is no topic {name}")
    return facts


def found_head(name: str) -> TopicHead:
    """Return a topic with totals over its partitions, or raise Problem."""
    head = topic_head(name)
    if head is None:
        found_topic(name)  # Raises Problem if the topic does not exist
        raise Problem(404, "TopicNotFound", f"{name} was just deleted")
    return head


def found_message(topic: str, spot: str) -> tuple[TopicHead, FoundMessage]:
    """Return a topic and the message at a position, or raise Problem."""
    head = found_head(topic)
    try:
        return head, find_message(head, read_spot(spot))
    except (MessageMissing, ValueError) as error:
        raise Problem(404, "MessageNotFound", str(error)) from error


def found_cursors(topic: str, name: str) -> tuple[TopicFacts, list[CursorRow]]:
    """Return a partitioned topic and the cursors of one of its subscriptions, or raise Problem."""
    facts = found_topic(topic)
    rows = (
        cursors_named(facts.id, ends_of(facts.id), name, limit=facts.partitions) if facts.partitions else []
    )
    if not rows:
        raise Problem(404, "SubscriptionNotFound", f"there is no subscription {name} on {topic}")
    return facts, rows


def found_subscription(topic: str, name: str) -> SubscriptionHead:
    """Return a subscription. Raise Problem if it is missing or the topic is partitioned."""
    head = subscription_head(topic, name)
    if head is not None:
        return head
    if found_topic(topic).partitions:
        raise Problem(
            404,
            "SubscriptionNotFound",
            f"{topic} is partitioned, and each partition has its own cursors: name {topic}-partition-0,"
            " or another one",
        )
    raise Problem(404, "SubscriptionNotFound", f"there is no subscription {name} on {topic}")
