"""The queries of pull requests, and the answers to them."""

from __future__ import annotations

import base64
import json

import pytest

from broker.doors.pull.wire.answer import AnsweredMessage, encode_answer
from broker.doors.pull.wire.request import (
    MAX_SUSPEND_MS,
    parse_offset_request,
    parse_pull_request,
    parse_pull_topic,
)
from vela.wire.errors import InvalidPull
from vela.wire.pull.codes import PullCode

TOPIC = "persistent://public/default/t"


def test_a_pull_without_options_has_the_defaults() -> None:
    request = parse_pull_request(TOPIC, b"offset=7")
    assert (request.queue, request.offset, request.max_messages) == (0, 7, 32)
    assert (request.tags, request.property_filter, request.may_suspend) == (None, None, False)
    assert request.suspend_timeout_ms == 15_000


def test_every_parameter_of_a_pull_is_read() -> None:
    request = parse_pull_request(
        TOPIC,
        b"queue=2&offset=0&max_messages=5&tags=A%7C%7CB&filter=a%3E1&suspend=true&suspend_timeout_ms=20000",
    )
    assert (request.queue, request.max_messages, request.tags) == (2, 5, frozenset({"A", "B"}))
    assert request.property_filter is not None
    assert request.property_filter({"a": "2"})
    assert (request.may_suspend, request.suspend_timeout_ms) == (True, 20_000)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("", "offset"),
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("offset=99999999999999999999", "offset"),
        ("offset=1&max_messages=0", "max_messages"),
        ("offset=1&max_messages=100000", "max_messages"),
        ("offset=1&queue=-1", "queue"),
        ("offset=1&suspend=maybe", "suspend"),
        ("offset=1&suspend_timeout_ms=0", "suspend_timeout_ms"),
        ("offset=1&suspend_timeout_ms=99999999", "suspend_timeout_ms"),
        ("offset=1&subscription=g&commit_offset=1", "PUT /pull/v1-offset/"),
        ("offset=1&subscription=g", "subscription"),
        ("offset=1&tags=%7C%7C", "tags"),
        ("offset=1&filter=a", "filter"),
        ("offset=1&surprise=1", "surprise"),
        ("offset=%zz", "%"),
    ],
)
def test_a_bad_parameter_is_named(query: str, named: str) -> None:
    with pytest.raises(InvalidPull, match=named):
        parse_pull_request(TOPIC, query)


def test_a_request_about_the_offset_of_a_group_needs_its_parameters() -> None:
    assert parse_offset_request(TOPIC, "subscription=g", is_commit=False).offset is None
    assert parse_offset_request(TOPIC, "subscription=g&offset=4", is_commit=True).offset == 4
    for query, is_commit, named in (("", False, "subscription"), ("subscription=g", True, "offset")):
        with pytest.raises(InvalidPull, match=named):
            parse_offset_request(TOPIC, query, is_commit=is_commit)
    with pytest.raises(InvalidPull, match="offset"):
        parse_offset_request(TOPIC, "subscription=g&offset=4", is_commit=False)


@pytest.mark.row("S3.6")
def test_a_topic_may_contain_any_separator() -> None:
    assert parse_pull_topic("/pull/v1/public/default/a%40b", "/pull/v1/") == "persistent://public/default/a@b"
    for path in ("/pull/v1/a/b", "/pull/v1/a//b", "/pull/v1/a/b/c/d", "/pull/v1/a/b/%zz"):
        with pytest.raises(InvalidPull):
            parse_pull_topic(path, "/pull/v1/")


@pytest.mark.row("S3.20")
def test_an_answer_names_its_code() -> None:
    names = {PullCode.SUCCESS: 0, PullCode.PULL_NOT_FOUND: 19, PullCode.PULL_RETRY_IMMEDIATELY: 20}
    assert {code: int(code) for code in names} == names
    body = json.loads(
        encode_answer(
            PullCode.SUCCESS,
            next_begin_offset=9,
            min_offset=1,
            max_offset=12,
            messages=[AnsweredMessage(8, "3:4", None, {"TAGS": "A"}, 5, 0, b"hello")],
        )
    )
    assert body["code"] == "SUCCESS"
    assert (body["next_begin_offset"], body["min_offset"], body["max_offset"]) == (9, 1, 12)
    (message,) = body["messages"]
    assert base64.b64decode(message["payload"]) == b"hello"
    assert (message["offset"], message["message_id"], message["tag"]) == (8, "3:4", "A")
    assert "key" not in message


@pytest.mark.row("S3.19")
def test_a_parking_time_has_a_limit_so_that_a_client_can_wait_longer() -> None:
    longest = parse_pull_request(TOPIC, f"offset=0&suspend=true&suspend_timeout_ms={MAX_SUSPEND_MS}")
    assert longest.suspend_timeout_ms == MAX_SUSPEND_MS
    with pytest.raises(InvalidPull, match="suspend_timeout_ms"):
        parse_pull_request(TOPIC, f"offset=0&suspend=true&suspend_timeout_ms={MAX_SUSPEND_MS + 1}")
