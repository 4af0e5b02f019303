"""Patterns of topics: which names they match."""

from __future__ import annotations

import re

import pytest

from vela.core.topic_pattern import TopicPattern
from vela.errors import InvalidTopicName

TOPICS = [
    "persistent://public/default/orders-1",
    "persistent://public/default/orders-2-partition-0",
    "persistent://public/default/orders-2-partition-1",
    "persistent://public/default/my-orders-1",
    "non-persistent://public/default/orders-3",
]


@pytest.mark.parametrize(
    "pattern",
    [
        "orders-.*",
        "public/default/orders-.*",
        "persistent://public/default/orders-.*",
        re.compile("orders-\\d"),
    ],
)
def test_a_pattern_must_match_the_whole_name_without_partition(pattern: str | re.Pattern[str]) -> None:
    made = TopicPattern(pattern)
    assert made.namespace == "public/default"
    assert made.matching(TOPICS) == {
        "persistent://public/default/orders-1",
        "persistent://public/default/orders-2",
        "non-persistent://public/default/orders-3",
    }


@pytest.mark.parametrize(
    "pattern",
    [
        "my.company/my-shop/orders-.*",
        r"my\.company/my\-shop/orders-.*",
        "persistent://my.company/my-shop/orders-.*",
        re.compile(re.escape("my.company/my-shop/orders-") + ".*"),
    ],
)
def test_the_dots_of_a_tenant_or_namespace_stand_for_themselves(pattern: str | re.Pattern[str]) -> None:
    made = TopicPattern(pattern)
    assert made.namespace == "my.company/my-shop"
    topic = "persistent://my.company/my-shop/orders-1"
    assert made.matching([topic, "persistent://my.company/my-shop/other"]) == {topic}


def test_flags_of_a_compiled_pattern_count() -> None:
    assert TopicPattern(re.compile("ORDERS-1", re.IGNORECASE)).matching(TOPICS) == {TOPICS[0]}


def test_changes_name_new_and_deleted_topics() -> None:
    changes = TopicPattern("orders-.*").changes(
        ["persistent://public/default/orders-0", TOPICS[0]], [TOPICS[0], TOPICS[1], TOPICS[3]]
    )
    assert changes.added == {"persistent://public/default/orders-2"}
    assert changes.removed == {"persistent://public/default/orders-0"}


@pytest.mark.parametrize(
    "pattern",
    [
        "public/.*/orders",
        ".*/default/orders",
        "./default/orders",
        r"public/\../orders",
        r"public/\w/orders",
        "a/b/",
        "(",
        "a/b",
        "a/b/[",
    ],
)
def test_an_invalid_topic_pattern_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(InvalidTopicName, match=r"pattern|expression"):
        TopicPattern(pattern)
