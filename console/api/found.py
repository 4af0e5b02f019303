"""Finds what an address names, or says which name to change."""

from __future__ import annotations

from broker.acts.requests import ActRefused, check_topic_name
from console.api.problems import Problem
from console.queries.numbers import TopicFacts, topic_facts
from console.queries.subscription import SubscriptionHead, subscription_head

__all__ = ["found_subscription", "found_topic"]


def found_topic(name: str) -> TopicFacts:
    """Return a topic by its full name. One query. Raises Problem if there is none, or if no topic can have the name."""
    facts = topic_facts(name)
    if facts is None:
        try:
            check_topic_name(name)
        except ActRefused as refused:
            raise Problem(400, refused.code, refused.text) from refused
        raise Problem(404, "TopicNotFound", f"there is no topic {name}")
    return facts


def found_subscription(topic: str, name: str) -> SubscriptionHead:
    """Return a subscription of a topic that holds messages itself. One query. Raises Problem if there is none."""
    head = subscription_head(topic, name)
    if head is not None:
        return head
    if found_topic(topic).partitions:
        raise Problem(
            404,
            "SubscriptionNotFound",
            f"{topic} is partitioned, and each partition has cursors of its own: name {topic}-partition-0,"
            " or another one",
        )
    raise Problem(404, "SubscriptionNotFound", f"there is no subscription {name} on {topic}")
