"""Paths of the WebSocket endpoints."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.query import parse_query
from broker.doors.websocket.json.paths import (
    BinaryPath,
    ConsumerPath,
    MultiTopicConsumerPath,
    PingPongPath,
    ProducerPath,
    ReaderPath,
    parse_path,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs"]), min_size=1).filter(str.strip)


def test_producer_and_reader_paths() -> None:
    producer = parse_path("/ws/v2/producer/persistent/public/default/orders", {})
    assert producer == ProducerPath(domain="persistent", tenant="public", namespace="default", topic="orders")
    reader = parse_path(b"/ws/v2/reader/non-persistent/t/n/a%2Fb+c", {})
    assert reader == ReaderPath(domain="non-persistent", tenant="t", namespace="n", topic="a/b c")
    assert isinstance(reader, ReaderPath)
    assert reader.full_topic == "non-persistent://t/n/a/b c"


def test_further_segments_join_into_the_topic() -> None:
    path = parse_path("/ws/v2/producer/persistent/t/n/a//b/", {})
    assert isinstance(path, ProducerPath)
    assert path.topic == "a/b"


def test_consumer_path_is_decoded_once() -> None:
    path = parse_path("/ws/v2/consumer/persistent/t/n/a%252F/my+sub%2B", {})
    assert path == ConsumerPath(
        domain="persistent", tenant="t", namespace="n", topic="a%2F", subscription="my sub+"
    )


@given(topic=NAMES, subscription=NAMES)
def test_any_encoded_name_comes_back(topic: str, subscription: str) -> None:
    raw = f"/ws/v2/consumer/persistent/t/n/{quote_plus(topic)}/{quote_plus(subscription)}"
    path = parse_path(raw.encode("ascii"), {})
    assert isinstance(path, ConsumerPath)
    assert (path.topic, path.subscription) == (topic, subscription)


@pytest.mark.parametrize("path", ["/ws/pingpong", "/ws/v2/pingpong"])
def test_ping_endpoints(path: str) -> None:
    assert parse_path(path, {}) == PingPongPath()


def test_binary_endpoint() -> None:
    assert parse_path("/ws/binary", {}) == BinaryPath()


@pytest.mark.parametrize(
    "path",
    [
        "/ws/v2/producer/persistent/t/n",  # 7 pieces
        "/ws/v2/reader/persistent/t/n",
        "/ws/v2/producer/persistent/t/n/",  # empty topic
        "/ws/v2/producer/persistent//n/topic",
        "/ws/v2/producer/queue/t/n/topic",  # domain
        "/ws/v2/consumer/persistent/t/n/topic",  # 8 pieces
        "/ws/v2/consumer/persistent/t/n/a/b/sub",  # 10 pieces
        "/ws/v2/consumer/persistent/t/n/topic/",  # empty subscription
        "/ws/v2/consumer/persistent/t/n/topic/+%20",
        "/ws/v2/consumer/persistent/t/n/topic/a%00b",
        "/ws/v2/producer/persistent/t/n/50%",
        "/ws/v2/producer/persistent/t/n/%zz",
        "/ws/v2/producer/persistent/t/n/%ff",  # not UTF-8
        "/ws/v3/consumer",
        "/ws/v3/consumer/a/b",
    ],
)
def test_wrong_shape_is_400(path: str) -> None:
    with pytest.raises(HandshakeRefused) as caught:
        parse_path(path, {"topics": "persistent://t/n/a"} if path != "/ws/v3/consumer" else {})
    assert caught.value.status == 400
    assert caught.value.reason.startswith("Invalid query params: ")


@pytest.mark.parametrize(
    "path", ["", "/", "/ws", "/ws/v2", "/ws/v4/consumer/s", "/ws/v2/admin/a/b/c/d", "ws/binary"]
)
def test_unknown_endpoint_is_404(path: str) -> None:
    with pytest.raises(HandshakeRefused) as caught:
        parse_path(path, {})
    assert caught.value.status == 404


def test_multi_topic_list_keeps_order_and_drops_repetition() -> None:
    query = parse_query("topics=persistent%3A%2F%2Ft%2Fn%2Fb,persistent://t/n/a,persistent://t/n/b")
    assert parse_path("/ws/v3/consumer/s%20x", query) == MultiTopicConsumerPath(
        subscription="s x", topics=("persistent://t/n/b", "persistent://t/n/a"), pattern=None
    )


@given(st.text())
def test_any_pattern_is_taken_or_refused(regex: str) -> None:
    query = {"topicsPattern": f"persistent://t/n/{regex}"}
    try:
        path = parse_path("/ws/v3/consumer/s", query)
    except InvalidQuery:
        return
    assert isinstance(path, MultiTopicConsumerPath)
    assert path.pattern is not None
    assert path.pattern.regex == regex


def test_multi_topic_pattern() -> None:
    assert parse_path("/ws/v3/consumer/s", {"topicsPattern": "persistent://t/n/[[a]"})
    path = parse_path("/ws/v3/consumer/s", {"topicsPattern": "persistent://t/n/a/.*"})
    assert isinstance(path, MultiTopicConsumerPath)
    assert path.pattern is not None
    assert (path.pattern.tenant, path.pattern.namespace, path.pattern.regex) == ("t", "n", "a/.*")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"topics": "persistent://t/n/a", "topicsPattern": "persistent://t/n/.*"},
        {"topics": ""},
        {"topics": "persistent://t/n/a,"},
        {"topicsPattern": ""},
        {"topicsPattern": ".*"},
        {"topicsPattern": "persistent://t/.*"},
        {"topicsPattern": "queue://t/n/.*"},
        {"topicsPattern": "persistent://t/n/("},
    ],
)
def test_multi_topic_parameters_are_400(query: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery):
        parse_path("/ws/v3/consumer/s", query)


@given(st.one_of(st.text(), st.binary(), st.text().map(lambda tail: "/ws/v2/consumer/persistent/" + tail)))
def test_garbage_raises_only_handshake_refused(path: str | bytes) -> None:
    assert status_of(path) in {None, 400, 404}


def status_of(path: str | bytes) -> int | None:
    try:
        parse_path(path, {})
    except HandshakeRefused as error:
        return error.status
    return None


@given(st.one_of(st.text(), st.binary()))
def test_garbage_query_raises_only_invalid_query(query: str | bytes) -> None:
    try:
        parsed = parse_query(query)
    except InvalidQuery:
        return
    for value in parsed.values():
        value.encode()


def test_query_first_value_counts() -> None:
    assert parse_query(b"a=1&a=2&b&c=x%3Dy=z&&d=1+2") == {"a": "1", "b": "", "c": "x=y=z", "d": "1 2"}
