"""A notification of Celery's tick makes the owner run the parts that it names by id, and all parts that are due."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.deadlines import Deadlines
from broker.topics.topic import Topic
from broker.upkeep.tick import run_tick


def topic(topic_id: int, *subscription_ids: int) -> Any:
    subscriptions = {
        f"s{each}": SimpleNamespace(subscription_id=each, topic_id=topic_id, is_durable=True)
        for each in subscription_ids
    }
    subscriptions["a reader's"] = SimpleNamespace(is_durable=False)
    return SimpleNamespace(topic_id=topic_id, delayed=f"delayed of {topic_id}", subscriptions=subscriptions)


TOPICS = [topic(1, 1, 2), topic(2, 3), topic(3)]


class Runs:
    """Stands in for the broker's deadlines, and remembers which parts each run named."""

    def __init__(self) -> None:
        self.named: list[list[object]] = []

    def run_due(self, named: Iterable[Any] = ()) -> int:
        self.named.append([getattr(each, "subscription_id", each) for each in named])
        return 0


def named(payload: str) -> list[object]:
    runs = Runs()
    run_tick(payload, cast(list[Topic], TOPICS), cast(Deadlines, runs))
    (found,) = runs.named
    return found


def test_an_empty_notification_names_nothing_and_runs_due_work() -> None:
    assert named("{}") == []


def test_ids_of_subscriptions_and_of_topics_are_different_ids() -> None:
    assert named('{"subscriptions": [2, 3]}') == [2, 3]
    assert named('{"delayed": [2, 3]}') == ["delayed of 2", "delayed of 3"]


def test_topics_that_are_not_in_memory_are_left_out() -> None:
    assert named('{"subscriptions": [2, 99], "delayed": [77]}') == [2]


@pytest.mark.parametrize("payload", ["", "1", "[1]", "subscriptions"])
def test_anything_but_an_object_is_refused(payload: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever json says
        named(payload)
