"""A pull as the client writes it, and answers as the client reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.pull.wire.answer import AnsweredMessage, encode_answer
from broker.doors.pull.wire.request import parse_pull_request, parse_pull_topic
from vela.wire.errors import RemoteProtocolError
from vela.wire.message_id import MessageId
from vela.wire.pull.codes import PullCode
from vela.wire.pull.reading import decode_answer, pull_query, topic_path

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


@given(text, text, text)
def test_a_topic_is_read_as_it_was_written(tenant: str, namespace: str, name: str) -> None:
    topic = f"persistent://{tenant or 'a'}/{namespace or 'b'}/{name or 'c'}"
    if "/" in tenant + namespace:
        return
    assert parse_pull_topic("/pull/v1/" + topic_path(topic), "/pull/v1/") == topic


def test_a_pull_is_read_as_it_was_written() -> None:
    query = pull_query(
        offset=9,
        queue=2,
        max_messages=7,
        tags="A || B+",
        property_filter="a = 'x&y' AND b > 3",
        hold_ms=15_000,
    )
    read = parse_pull_request("persistent://a/b/c", query)
    assert (read.offset, read.queue, read.max_messages) == (9, 2, 7)
    assert read.tags == frozenset({"A", "B+"})
    assert read.property_filter is not None
    assert read.property_filter({"a": "x&y", "b": "4"})
    assert (read.may_suspend, read.suspend_timeout_ms) == (True, 15_000)
    plain = parse_pull_request("persistent://a/b/c", pull_query(offset=0))
    assert (plain.may_suspend, plain.tags, plain.property_filter) == (False, None, None)


times_ms = st.integers(-(1 << 63), (1 << 63) - 1)  # a producer may send any time


@given(st.binary(max_size=50), st.dictionaries(text, text, max_size=4), st.none() | text, times_ms, times_ms)
def test_an_answer_is_read_as_it_was_written(
    payload: bytes, properties: dict[str, str], key: str | None, publish_time_ms: int, event_time_ms: int
) -> None:
    sent = AnsweredMessage(8, "3:4:1:0", key, properties, publish_time_ms, event_time_ms, payload)
    answer = decode_answer(
        encode_answer(
            PullCode.SUCCESS,
            next_begin_offset=9,
            min_offset=1,
            max_offset=12,
            messages=[sent],
            unreadable_messages=2,
        ),
        offset=3,
    )
    assert (answer.code, answer.next_begin_offset) == (PullCode.SUCCESS, 9)
    assert (answer.min_offset, answer.max_offset, answer.unreadable_messages) == (1, 12, 2)
    (message,) = answer.messages
    assert message.message_id == MessageId(3, 4, 1, 0)
    assert (message.payload, message.properties, message.key) == (payload, properties, key)
    assert (message.offset, message.publish_time_ms, message.event_time_ms) == (
        8,
        publish_time_ms,
        event_time_ms,
    )
    assert message.tag == properties.get("TAGS")


GOOD: dict[str, Any] = {
    "code": "SUCCESS",
    "next_begin_offset": 9,
    "min_offset": 0,
    "max_offset": 9,
    "unreadable_messages": 0,
    "messages": [
        {"offset": 8, "message_id": "1:2", "properties": {}, "publish_time_ms": 1, "payload": "aGk="}
    ],
}


@pytest.mark.parametrize(
    "change",
    [
        {"code": "MAYBE"},
        {"code": 0},
        {"code": "PULL_NOT_FOUND"},
        {"messages": []},
        {"messages": None},
        {"messages": [5]},
        {"next_begin_offset": "9"},
        {"next_begin_offset": -1},
        {"next_begin_offset": True},
        {"next_begin_offset": 8},
        {"max_offset": None},
        {"offset": 2},
        {"offset": 9},
        {"message_id": "1"},
        {"message_id": 1},
        {"payload": "?"},
        {"payload": None},
        {"properties": {"a": 1}},
        {"properties": []},
        {"key": 3},
        {"publish_time_ms": None},
    ],
)
def test_impossible_answers_are_refused(change: dict[str, Any]) -> None:
    assert decode_answer(json.dumps(GOOD).encode(), offset=8).messages[0].payload == b"hi"
    (message,) = GOOD["messages"]
    outer = {name: value for name, value in change.items() if name in GOOD}
    inner = {name: value for name, value in change.items() if name not in GOOD}
    bad = {**GOOD, **outer} if outer else {**GOOD, "messages": [{**message, **inner}]}
    with pytest.raises(RemoteProtocolError):
        decode_answer(json.dumps(bad).encode(), offset=8)


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b"{", b"\xff", b"{}", b"[" * 100_000])
def test_texts_that_are_not_answers_are_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_answer(body, offset=0)


def test_messages_are_in_order_and_never_before_the_requested_offset() -> None:
    (message,) = GOOD["messages"]
    twice = {**GOOD, "messages": [message, message]}
    with pytest.raises(RemoteProtocolError, match="after 8"):
        decode_answer(json.dumps(twice).encode(), offset=8)
    with pytest.raises(RemoteProtocolError, match="from 9"):
        decode_answer(json.dumps(GOOD).encode(), offset=9)
    back = {**GOOD, "code": "PULL_RETRY_IMMEDIATELY", "messages": [], "next_begin_offset": 3}
    with pytest.raises(RemoteProtocolError, match="continue at 3"):
        decode_answer(json.dumps(back).encode(), offset=8)
    moved = {**back, "code": "PULL_OFFSET_MOVED"}
    assert decode_answer(json.dumps(moved).encode(), offset=8).next_begin_offset == 3
