"""What a handler learns about a message that Vela's client received."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from broker.handlers.message import Message
from broker.testing.fixtures import _message
from vela.message import Message as ReceivedMessage
from vela.message import MessageId, ReceivedEntry
from vela.wire.entry import decode_messages, encode_single

PUBLISHED_MS, EVENT_MS = 1_772_375_400_120, 1_772_375_000_000


def received(*, key: str | None = None, event_time_ms: int = 0, payload: bytes = b"") -> ReceivedMessage:
    data = encode_single(
        producer_name="p",
        sequence_id=0,
        publish_time_ms=PUBLISHED_MS,
        payload=payload,
        properties={"p": "v"},
        key=key,
        event_time_ms=event_time_ms,
    )
    (body,) = decode_messages(data, max_message_bytes=1000)
    return ReceivedMessage(body, ReceivedEntry("persistent://a/b/t-partition-2", 11, 12, 2, 3))


def test_every_field_of_a_received_message_reaches_the_handler() -> None:
    message = Message.from_received(
        "persistent://a/b/t", received(key="k", event_time_ms=EVENT_MS, payload=b'{"a": 1}')
    )
    assert message.topic == "persistent://a/b/t"
    message_id = MessageId.deserialize(base64.b64decode(message.message_id))
    assert (message_id.ledger_id(), message_id.entry_id(), message_id.partition()) == (11, 12, 2)
    assert (message.text, message.json(), message.key) == ('{"a": 1}', {"a": 1}, "k")
    assert (message.properties, message.redelivery_count) == ({"p": "v"}, 3)
    assert message.publish_time == datetime(2026, 3, 1, 14, 30, 0, 120_000, UTC)
    assert message.event_time == datetime(2026, 3, 1, 14, 23, 20, tzinfo=UTC)


def test_fields_that_the_publisher_did_not_set_are_none() -> None:
    message = Message.from_received("t", received())
    assert (message.payload, message.key, message.event_time) == (b"", None, None)


def test_a_time_that_no_datetime_can_have_is_none() -> None:
    assert Message.from_received("t", received(event_time_ms=(1 << 63) - 1)).event_time is None


def test_in_a_projects_tests_a_message_has_the_same_fields() -> None:
    data = encode_single(
        producer_name="p", sequence_id=0, publish_time_ms=PUBLISHED_MS, payload=b"x", event_time_ms=EVENT_MS
    )
    row: Any = SimpleNamespace(pk=7, topic="persistent://a/b/t", data=data)
    assert _message(row) == Message(
        topic="persistent://a/b/t",
        message_id="outbox:7",
        payload=b"x",
        publish_time=datetime(2026, 3, 1, 14, 30, 0, 120_000, UTC),
        event_time=datetime(2026, 3, 1, 14, 23, 20, tzinfo=UTC),
    )
