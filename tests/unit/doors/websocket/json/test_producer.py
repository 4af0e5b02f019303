"""A producer's frames."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.websocket.json.errors import WebSocketError
from broker.doors.websocket.json.frames import MAX_ITEMS_PER_FRAME
from broker.doors.websocket.json.producer import (
    ArrayAcks,
    DecodedMessage,
    ProducerMessage,
    SendError,
    ack_frame,
    decode_frame,
)

NOW_MS = 1_700_000_000_000
TEXT = st.text(st.characters(codec="utf-8"))


def decode(fields: object) -> DecodedMessage:
    decoded = decode_frame(json.dumps(fields), NOW_MS)
    assert not isinstance(decoded, list)
    return decoded


def message(fields: object) -> ProducerMessage:
    decoded = decode(fields)
    assert isinstance(decoded, ProducerMessage), decoded
    return decoded


def refused(fields: object) -> SendError:
    decoded = decode(fields)
    assert isinstance(decoded, SendError), decoded
    return decoded


@given(
    payload=st.binary(),
    properties=st.dictionaries(TEXT, TEXT),
    key=TEXT,
    context=TEXT,
    ascii_only=st.booleans(),
)
def test_every_field_of_a_frame_reaches_the_message(
    payload: bytes, properties: dict[str, str], key: str, context: str, ascii_only: bool
) -> None:
    fields = {
        "payload": base64.b64encode(payload).decode(),
        "properties": properties,
        "key": key,
        "context": context,
    }
    decoded = decode_frame(json.dumps(fields, ensure_ascii=ascii_only), NOW_MS)
    assert decoded == ProducerMessage(
        payload=payload, properties=properties, key=key, context=context, event_time_ms=0, deliver_at_ms=None
    )


def test_an_empty_payload_is_a_message_and_nulls_are_absent() -> None:
    decoded = message({"payload": "", "properties": None, "key": None, "context": None, "eventTime": None})
    assert (decoded.payload, decoded.properties, decoded.key, decoded.context) == (b"", {}, None, None)


def test_unknown_and_unused_fields_are_ignored() -> None:
    fields = {
        "payload": "AA==",
        "sequenceId": "x",
        "schemaVersion": [],
        "new": {"a": 1},
        "replicationClusters": ["r"],
    }
    assert message(fields).payload == b"\x00"


def test_the_event_time_is_read_with_its_zone() -> None:
    assert (
        message({"payload": "", "eventTime": "2024-05-01T12:00:00.5+02:00"}).event_time_ms
        == 1_714_557_600_500
    )


@pytest.mark.parametrize(
    ("fields", "deliver_at_ms"),
    [
        ({}, None),
        ({"deliverAt": 5}, 5),
        ({"deliverAt": 0}, None),
        ({"deliverAt": -5}, None),
        ({"deliverAfterMs": 7}, NOW_MS + 7),
        ({"deliverAfterMs": 0}, None),
        ({"deliverAt": 5, "deliverAfterMs": 7}, NOW_MS + 7),
        ({"deliverAt": 5, "deliverAfterMs": -7}, 5),
    ],
)
def test_the_delivery_time_is_read_as_a_delay_or_a_moment(
    fields: dict[str, Any], deliver_at_ms: int | None
) -> None:
    assert message({"payload": ""} | fields).deliver_at_ms == deliver_at_ms


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"payload": None},
        {"payload": "A"},
        {"payload": "AA"},
        {"payload": "A*A="},
        {"payload": "-_8="},
        {"payload": "AAAA AAAA"},
        {"payload": "", "eventTime": "yesterday"},
        {"payload": "", "eventTime": ""},
        {"payload": "", "deliverAfterMs": 2**63 - 1},
    ],
)
def test_an_invalid_payload_is_error_7_with_the_context(fields: dict[str, Any]) -> None:
    error = refused(fields | {"context": "c1"})
    assert error.error == WebSocketError.PAYLOAD_ENCODING_ERROR
    assert error.context == "c1"


@pytest.mark.parametrize(
    "fields",
    [
        17,
        None,
        "text",
        {"payload": 5, "context": "c1"},
        {"payload": "", "properties": {"a": 1}},
        {"payload": "", "properties": {"a": None}},
        {"payload": "", "properties": []},
        {"payload": "", "key": 1},
        {"payload": "", "context": {}},
        {"payload": "", "deliverAt": "5"},
        {"payload": "", "deliverAt": 2**63},
        {"payload": "", "deliverAfterMs": 1.5},
    ],
)
def test_a_frame_of_the_wrong_shape_is_error_3_without_a_context(fields: object) -> None:
    error = refused(fields)
    assert error.error == WebSocketError.FAILED_TO_DESERIALIZE_FROM_JSON
    assert error.context is None


@pytest.mark.parametrize(
    "frame",
    [
        "", "{", "{}x", "nul", b"\xff", '{"payload":"\ud800"}', '{"context":"\\ud800","payload":""}',
        "\ufeff{}", "[]", "[" * 100_000, '{"a":' * 100_000, '{"a":' + "[" * 100_000,
    ],
)  # fmt: skip
def test_a_frame_that_is_not_json_is_one_error_3(frame: str | bytes) -> None:
    decoded = decode_frame(frame, NOW_MS)
    assert isinstance(decoded, SendError)
    assert decoded.error == WebSocketError.FAILED_TO_DESERIALIZE_FROM_JSON
    assert json.loads(decoded.to_frame())["result"] == "send-error:3"


def test_items_of_an_array_fail_one_by_one() -> None:
    frame = json.dumps(
        [{"payload": "AA=="}, {"payload": "*", "context": "c"}, {"payload": 5}, 7, {"payload": "AQ=="}]
    )
    decoded = decode_frame(frame, NOW_MS)
    assert isinstance(decoded, list)
    assert [item.error if isinstance(item, SendError) else item.payload for item in decoded] == [
        b"\x00", 7, 3, 3, b"\x01",
    ]  # fmt: skip
    assert isinstance(decoded[1], SendError)
    assert decoded[1].context == "c"


def test_an_array_with_too_many_messages_is_one_error() -> None:
    item = '{"payload":""}'
    fits = decode_frame(f"[{','.join([item] * MAX_ITEMS_PER_FRAME)}]", NOW_MS)
    assert isinstance(fits, list)
    assert len(fits) == MAX_ITEMS_PER_FRAME
    for one in (item, '{"payload":"*"}'):
        too_many = decode_frame(f"[{','.join([one] * (MAX_ITEMS_PER_FRAME + 1))}]", NOW_MS)
        assert isinstance(too_many, SendError)
        assert str(MAX_ITEMS_PER_FRAME) in too_many.message


@given(st.one_of(st.text(), st.binary()))
def test_garbage_never_raises(frame: str | bytes) -> None:
    decoded = decode_frame(frame, NOW_MS)
    for item in decoded if isinstance(decoded, list) else [decoded]:
        if isinstance(item, SendError):
            json.loads(item.to_frame())


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just("AA=="),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["payload", "properties", "context", "key", "eventTime", "deliverAt", "deliverAfterMs"]
)


@given(st.one_of(st.dictionaries(NAMES, JSON_VALUES), st.lists(st.dictionaries(NAMES, JSON_VALUES))))
def test_any_json_never_raises(value: object) -> None:
    decoded = decode_frame(json.dumps(value), NOW_MS)
    if isinstance(value, list) and value:
        assert isinstance(decoded, list)
        assert len(decoded) == len(value)
    else:
        assert isinstance(decoded, ProducerMessage | SendError)


@given(context=st.none() | TEXT)
def test_an_ack_frame_has_the_id_and_the_context(context: str | None) -> None:
    expected = {"result": "ok", "messageId": "CAwQIjAA", "errorCode": 0, "schemaVersion": 0}
    if context is not None:
        expected["context"] = context
    assert json.loads(ack_frame("CAwQIjAA", context)) == expected


@given(context=st.none() | TEXT, text=st.text())
def test_an_error_frame_has_the_message_and_the_context(context: str | None, text: str) -> None:
    error = SendError(error=WebSocketError.UNKNOWN_ERROR, message=text, context=context)
    answer = json.loads(error.to_frame())
    assert answer.pop("errorMsg") == text.encode("utf-8", "replace").decode()
    expected = {"result": "send-error:8", "errorCode": 0, "schemaVersion": 0}
    assert answer == (expected if context is None else expected | {"context": context})


@given(st.permutations(range(5)))
def test_array_acks_answer_once_in_the_order_sent(order: list[int]) -> None:
    acks = ArrayAcks(5)
    frames = [acks.settle(index, ack_frame("CAwQIjAA", str(index))) for index in order]
    assert frames[:-1] == [None] * 4
    assert frames[-1] is not None
    assert [answer["context"] for answer in json.loads(frames[-1])] == list("01234")


def test_settling_twice_changes_nothing() -> None:
    acks = ArrayAcks(2)
    assert acks.settle(0, b"1") is None
    assert acks.settle(0, b"2") is None
    assert acks.settle(1, b"3") == b"[1,3]"
    assert acks.settle(1, b"4") is None
