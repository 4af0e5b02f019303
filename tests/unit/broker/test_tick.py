"""What a notification of Celery's tick names, found in the owner's memory by id."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.topics.topic import Topic
from broker.upkeep.tick import named_in


def topic(topic_id: int, *subscription_ids: int) -> Any:
    subscriptions = {
        f"s{each}": SimpleNamespace(subscription_id=each, topic_id=topic_id, is_durable=True)
        for each in subscription_ids
    }
    subscriptions["a reader's"] = SimpleNamespace(is_durable=False)
    return SimpleNamespace(topic_id=topic_id, delayed=f"delayed of {topic_id}", subscriptions=subscriptions)


TOPICS = [topic(1, 1, 2), topic(2, 3), topic(3)]


def named(payload: str) -> list[object]:
    found = named_in(payload, cast(list[Topic], TOPICS))
    return [getattr(each, "subscription_id", each) for each in found]


def test_an_empty_notification_names_nothing() -> None:
    assert named("{}") == []


def test_ids_of_subscriptions_and_of_topics_are_different_ids() -> None:
    assert named('{"subscriptions": [2, 3]}') == [2, 3]
    assert named('{"delayed": [2, 3]}') == ["delayed of 2", "delayed of 3"]


def test_what_is_not_in_memory_is_left_out() -> None:
    assert named('{"subscriptions": [2, 99], "delayed": [77]}') == [2]


@pytest.mark.parametrize("payload", ["", "1", "[1]", "subscriptions"])
def test_anything_but_an_object_is_refused(payload: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever json says
        named(payload)
