"""A consumer's and a reader's frames."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.times import format_time
from broker.doors.websocket.json.consumer import (
    Acknowledge,
    ConsumerCommand,
    IsEndOfTopic,
    NegativeAcknowledge,
    Permit,
    Unsubscribe,
    decode_commands,
    end_of_topic_frame,
    push_fragment,
    push_frame,
)
from broker.doors.websocket.json.errors import CloseCode, InvalidCommand, InvalidJson, SessionError
from broker.doors.websocket.json.frames import MAX_ITEMS_PER_FRAME
from broker.doors.websocket.json.reader import ReaderFrame, decode_reader_frame
from vela.wire.entry import Message
from vela.wire.message_id import MessageId

ID = MessageId(12, 34)
BATCH_ID = MessageId(12, 34, batch_index=1, batch_size=3)
ID_TEXT = ID.to_base64()
TEXT = st.text(st.characters(codec="utf-8"))


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"messageId": BATCH_ID.to_base64()}, Acknowledge(BATCH_ID, False)),
        ({"type": None, "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"type": "", "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"type": "acknowlege", "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"type": "Permit", "messageId": ID_TEXT, "permitMessages": 4}, Acknowledge(ID, False)),
        ({"type": "acknowlege", "ackType": "cumulative", "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"ackType": 5, "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"type": "acknowledge", "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"type": "acknowledge", "ackType": "individual", "messageId": ID_TEXT}, Acknowledge(ID, False)),
        ({"type": "acknowledge", "ackType": "cumulative", "messageId": ID_TEXT}, Acknowledge(ID, True)),
        ({"type": "negativeAcknowledge", "messageId": ID_TEXT}, NegativeAcknowledge(ID)),
        ({"type": "permit", "permitMessages": 100}, Permit(100)),
        ({"type": "permit", "permitMessages": 0}, Permit(0)),
        ({"type": "permit", "permitMessages": -1}, Permit(-1)),
        ({"type": "unsubscribe"}, Unsubscribe()),
        ({"type": "isEndOfTopic", "unknown": [1]}, IsEndOfTopic()),
    ],
)
def test_each_frame_is_read_as_its_command(fields: dict[str, Any], command: ConsumerCommand) -> None:
    assert decode_commands(json.dumps(fields)) == [command]


def test_an_array_keeps_its_order() -> None:
    frame = json.dumps(
        [{"messageId": ID_TEXT}, {"type": "permit", "permitMessages": 2}, {"type": "unsubscribe"}]
    )
    assert decode_commands(frame) == [Acknowledge(ID, False), Permit(2), Unsubscribe()]


def test_known_ids_are_not_parsed_and_unknown_ones_are() -> None:
    known = {"as it was sent": BATCH_ID}
    frame = json.dumps([{"messageId": "as it was sent"}, {"messageId": ID_TEXT}])
    assert decode_commands(frame, known) == [Acknowledge(BATCH_ID, False), Acknowledge(ID, False)]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "negativeAcknowledge"},
        {"messageId": None},
        {"messageId": "*"},
        {"messageId": "////"},
        {"type": "permit"},
        {"type": "permit", "permitMessages": None},
        {"type": "acknowledge", "ackType": "Cumulative", "messageId": ID_TEXT},
        {"type": "reconsumeLater", "delayMillis": 1, "messageId": ID_TEXT, "properties": {"x": "y" * 65_536}},
        [{"messageId": ID_TEXT}, {}],
    ],
)
def test_impossible_commands_close_with_1008(fields: object) -> None:
    with pytest.raises(InvalidCommand) as caught:
        decode_commands(json.dumps(fields))
    assert caught.value.close_code == CloseCode.POLICY_VIOLATION
    assert caught.value.reason.startswith("3: ")


@pytest.mark.parametrize(
    "frame",
    [
        "", "ack", "17", "null", "[]", "[17]", "{}{}", b"\xff", "\ud800", '{"type":5}', '{"messageId":5}',
        '{"type":"permit","permitMessages":"5"}', '{"type":"permit","permitMessages":1.5}',
        '{"type":"permit","permitMessages":2147483648}', "[" * 100_000, '{"a":' * 100_000,
        "[" + ",".join(['{"type":"isEndOfTopic"}'] * (MAX_ITEMS_PER_FRAME + 1)) + "]",
    ],
)  # fmt: skip
def test_frames_that_are_not_commands_close_with_1007(frame: str | bytes) -> None:
    with pytest.raises(InvalidJson) as caught:
        decode_commands(frame)
    assert caught.value.close_code == CloseCode.INVALID_DATA
    assert len(caught.value.reason.encode()) <= 123


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ("", "send each object whole"),
        ('{"messageId":', "send each object whole"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_text_that_is_not_json_gets_a_hint(frame: str, says: str) -> None:
    with pytest.raises(InvalidJson, match=says):
        decode_commands(frame)


def close_code_of(decode: Callable[[str | bytes], object], frame: str | bytes) -> CloseCode | None:
    try:
        decode(frame)
    except SessionError as error:
        return error.close_code
    return None


@given(st.one_of(st.text(), st.binary()))
def test_garbage_raises_only_session_errors(frame: str | bytes) -> None:
    for decode in (decode_commands, decode_reader_frame):
        assert close_code_of(decode, frame) in {None, CloseCode.INVALID_DATA, CloseCode.POLICY_VIOLATION}


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["acknowledge", "negativeAcknowledge", "permit"]) | st.text() | st.integers(),
        "messageId": st.text() | st.binary().map(lambda raw: base64.b64encode(raw).decode()) | st.integers(),
        "permitMessages": st.integers() | st.floats() | st.text(),
        "ackType": st.sampled_from(["cumulative", "individual"]) | st.text() | st.lists(st.integers()),
    },
)


@given(FIELDS | st.lists(FIELDS))
def test_any_json_raises_only_session_errors(fields: object) -> None:
    try:
        commands = decode_commands(json.dumps(fields))
    except SessionError:
        return
    assert len(commands) == (len(fields) if isinstance(fields, list) else 1)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    return Message(
        payload=draw(st.binary()),
        properties=draw(st.dictionaries(TEXT, TEXT)),
        key=draw(st.none() | TEXT),
        event_time_ms=draw(st.just(0) | st.integers(0, 2**64 - 1)),
        publish_time_ms=draw(st.integers(0, 2**64 - 1)),
        batch_index=-1,
        batch_size=0,
        sequence_id=0,
        producer_name="p",
        ordering_key=None,
    )


@given(message=messages(), redelivery_count=st.integers(0, 2**32 - 1))
def test_a_push_has_every_field_of_its_message(message: Message, redelivery_count: int) -> None:
    expected = {
        "messageId": ID_TEXT,
        "payload": base64.b64encode(message.payload).decode(),
        "properties": message.properties,
        "publishTime": format_time(message.publish_time_ms),
        "redeliveryCount": redelivery_count,
    }
    if message.key is not None:
        expected["key"] = message.key
    if message.event_time_ms:
        expected["eventTime"] = format_time(message.event_time_ms)
    frame = push_frame(ID_TEXT, push_fragment(message), redelivery_count)
    assert json.loads(frame) == expected


@pytest.mark.parametrize("odd", ['"', "\\", "\x00\x1f\x7f", "\u2028", "😀", "</script>", "%b%d"])
def test_odd_characters_are_escaped(odd: str) -> None:
    message = Message(
        payload=b"",
        properties={odd: odd},
        key=odd,
        event_time_ms=0,
        publish_time_ms=0,
        batch_index=-1,
        batch_size=0,
        sequence_id=0,
        producer_name="p",
        ordering_key=None,
    )
    pushed = json.loads(push_frame(ID_TEXT, push_fragment(message), 1))
    assert (pushed["properties"], pushed["key"]) == ({odd: odd}, odd)


def test_end_of_topic_is_a_json_boolean() -> None:
    assert json.loads(end_of_topic_frame(True)) == {"endOfTopic": True}
    assert json.loads(end_of_topic_frame(False)) == {"endOfTopic": False}


@pytest.mark.parametrize(
    ("frame", "processed", "requests"),
    [
        ("{}", 1, 0),
        ('{"messageId":5}', 1, 0),
        ('{"type":[]}', 1, 0),
        ('{"type":"isEndOfTopic"}', 0, 1),
        ('[{},{"type":"isEndOfTopic"},{"messageId":"x"}]', 2, 1),
    ],
)
def test_frames_of_a_reader_are_counted_or_are_requests(frame: str, processed: int, requests: int) -> None:
    assert decode_reader_frame(frame) == ReaderFrame(processed=processed, end_of_topic_requests=requests)


@pytest.mark.parametrize("frame", ["", "17", "null", "[]", "[1]", '"x"'])
def test_reader_frames_that_are_not_objects_close_with_1007(frame: str) -> None:
    with pytest.raises(InvalidJson):
        decode_reader_frame(frame)
