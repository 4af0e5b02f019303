"""Which topics a pattern chooses, and which patterns are refused."""

from __future__ import annotations

import pytest

from broker.core.errors import InvalidTopicName, NotAllowed
from broker.core.topic_pattern import MAX_PATTERN_CHARACTERS, TopicPattern, split_pattern

ORDERS = "persistent://shop/eu/orders"


@pytest.mark.parametrize(
    ("pattern", "topic", "is_chosen"),
    [
        ("persistent://shop/eu/ord.*", ORDERS, True),
        ("shop/eu/ord.*", ORDERS, True),
        ("^persistent://shop/eu/ord.*$", ORDERS, True),
        ("non-persistent://shop/eu/ord.*", ORDERS, True),  # the domain is not compared
        ("persistent://shop/eu/ord", ORDERS, False),  # the pattern must match the whole name, as in Java
        ("persistent://shop/eu/orders", f"{ORDERS}-partition-7", True),
        (r"persistent://shop/eu/orders-partition-\d", f"{ORDERS}-partition-7", False),
        (r"persistent://shop/eu/\Qa.b\E", "persistent://shop/eu/a.b", True),
        (r"persistent://shop/eu/\Qa.b\E", "persistent://shop/eu/axb", False),
        ("persistent://shop/eu/(?i:ORDERS)", ORDERS, True),
        ("persistent://shop/eu/größe-.*", "persistent://shop/eu/größe-1", True),
    ],
)
def test_a_pattern_chooses_by_the_name_without_domain_and_partition(
    pattern: str, topic: str, is_chosen: bool
) -> None:
    assert TopicPattern(pattern).matches(topic) is is_chosen


@pytest.mark.parametrize(
    "pattern",
    [
        "shop/eu/(",
        "shop/eu/(?=x)x",
        r"shop/eu/(x)\1",
        "((.?){30}){30}",
        r"(\pL?\pL?){20}",
        "x" * (MAX_PATTERN_CHARACTERS + 1),
    ],
)
def test_a_pattern_that_cannot_be_matched_in_bounded_time_is_refused(pattern: str) -> None:
    with pytest.raises(NotAllowed, match="the pattern"):
        TopicPattern(pattern)


def test_a_hostile_pattern_is_matched_without_trying_every_way() -> None:
    # A backtracking engine would take 2^1000 steps for this.
    assert not TopicPattern("shop/eu/(a+)+b").matches(f"persistent://shop/eu/{'a' * 1000}")


def test_a_pattern_names_its_namespace() -> None:
    assert split_pattern("persistent://shop/eu/a/b.*") == ("persistent", "shop/eu")
    for wrong in ("shop/eu/.*", "other://shop/eu/.*", "persistent://shop/eu", "persistent://shop/eu/", "x"):
        with pytest.raises(InvalidTopicName):
            split_pattern(wrong)
    with pytest.raises(InvalidTopicName):
        split_pattern("persistent://shop/.*/orders")
