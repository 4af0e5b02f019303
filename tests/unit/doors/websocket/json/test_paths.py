"""The names in a WebSocket's address, and its query."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.handshake_errors import InvalidQuery
from broker.doors.query import parse_query
from broker.doors.websocket.json.paths import (
    RequestedPattern,
    full_topic,
    requested_topics,
    subscription_name,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs"]), min_size=1).filter(str.strip)


def topic(
    name: str, *, domain: str = "persistent", tenant: str = "public", namespace: str = "default"
) -> str:
    return full_topic({"domain": domain, "tenant": tenant, "namespace": namespace, "topic": name})


def test_a_topic_is_named_in_full() -> None:
    assert topic("orders") == "persistent://public/default/orders"
    assert topic("a%2Fb+c", domain="non-persistent", tenant="t") == "non-persistent://t/default/a/b c"


def test_further_segments_join_into_the_topic() -> None:
    assert topic("a//b/", tenant="t", namespace="n") == "persistent://t/n/a/b"


def test_names_are_decoded_once() -> None:
    assert topic("a%252F").endswith("/a%2F")
    assert subscription_name("my+sub%2B") == "my sub+"


@given(name=NAMES, subscription=NAMES)
def test_any_encoded_name_comes_back(name: str, subscription: str) -> None:
    assert topic(quote_plus(name)) == f"persistent://public/default/{name}"
    assert subscription_name(quote_plus(subscription)) == subscription


@pytest.mark.parametrize(
    "pieces",
    [
        {"topic": ""},
        {"topic": "/"},
        {"topic": "+"},
        {"topic": "50%"},
        {"topic": "%zz"},
        {"topic": "%ff"},
        {"topic": "t", "tenant": ""},
        {"topic": "t", "namespace": "%20"},
        {"topic": "t", "domain": "queue"},
        {"topic": "t", "domain": ""},
    ],
)
def test_a_wrong_part_of_the_address_is_answered_with_400(pieces: dict[str, str]) -> None:
    given_pieces = {"domain": "persistent", "tenant": "t", "namespace": "n", **pieces}
    with pytest.raises(InvalidQuery) as caught:
        full_topic(given_pieces)
    assert caught.value.status == 400
    assert caught.value.reason.startswith("Invalid query params: ")


@pytest.mark.parametrize("piece", ["", "+%20", "a%00b", "%7F", "%ff", "%"])
def test_a_wrong_subscription_is_refused(piece: str) -> None:
    with pytest.raises(InvalidQuery):
        subscription_name(piece)


def test_a_list_of_topics_keeps_its_order_and_drops_repetition() -> None:
    query = parse_query("topics=persistent%3A%2F%2Ft%2Fn%2Fb,persistent://t/n/a,persistent://t/n/b")
    assert requested_topics(query) == ("persistent://t/n/b", "persistent://t/n/a")


@given(st.text(min_size=1))
def test_any_text_is_a_pattern_or_refused_with_400(regex: str) -> None:
    try:
        found = requested_topics({"topicsPattern": f"persistent://t/n/{regex}"})
    except InvalidQuery:
        return
    assert isinstance(found, RequestedPattern)
    assert found.namespace == "t/n"
    found.pattern.matches("persistent://t/n/orders")


def test_a_pattern_names_its_namespace() -> None:
    found = requested_topics(parse_query("topicsPattern=persistent%3A%2F%2Ft%2Fn%2Ford.*"))
    assert isinstance(found, RequestedPattern)
    assert (found.namespace, found.pattern.matches("persistent://t/n/orders")) == ("t/n", True)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "neither topics nor topicsPattern is given"),
        (
            {"topics": "persistent://t/n/a", "topicsPattern": "persistent://t/n/.*"},
            "both topics=persistent://t/n/a and topicsPattern=persistent://t/n/.* are given",
        ),
        ({"topics": ""}, "comma separated"),
        ({"topics": "persistent://t/n/a,"}, "comma separated"),
        ({"topicsPattern": ""}, "persistent://{tenant}"),
        ({"topicsPattern": ".*"}, "persistent://{tenant}"),
        ({"topicsPattern": "persistent://t/.*"}, "persistent://{tenant}"),
        ({"topicsPattern": "queue://t/n/.*"}, "persistent://{tenant}"),
        ({"topicsPattern": "persistent://t/n/("}, "not a regular expression"),
        ({"topicsPattern": "persistent://t/n/(?=a)"}, "not a regular expression"),
        ({"topicsPattern": f"persistent://t/n/{'a' * 256}"}, "at most 256"),
        ({"topicsPattern": "non-persistent://t/n/.*"}, "persistent topics"),
    ],
)
def test_wrong_parameters_of_a_multi_topic_consumer_are_400(query: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidQuery, match=words):
        requested_topics(query)


@given(st.one_of(st.text(), st.binary()))
def test_garbage_query_raises_only_invalid_query(query: str | bytes) -> None:
    try:
        parsed = parse_query(query)
    except InvalidQuery:
        return
    for value in parsed.values():
        value.encode()


def test_the_first_value_of_a_repeated_parameter_counts() -> None:
    assert parse_query(b"a=1&a=2&b&c=x%3Dy=z&&d=1+2") == {"a": "1", "b": "", "c": "x=y=z", "d": "1 2"}
