"""The JSON WebSocket API over the stored entry: what a producer's frame says is what a consumer's push says."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.times import format_time
from broker.doors.websocket.json.batch_acks import BatchAcks
from broker.doors.websocket.json.consumer import Acknowledge, decode_commands, push_fragment, push_frame
from broker.doors.websocket.json.options import CompressionType
from broker.doors.websocket.json.producer import ProducerMessage, decode_frame
from vela.wire.entry import Compression, OutgoingMessage, decode_messages, encode_batch, encode_single
from vela.wire.message_id import MessageId

TEXT = st.text(st.characters(codec="utf-8"))
LIMIT = 5 * 1024 * 1024


@given(
    payload=st.binary(),
    properties=st.dictionaries(TEXT, TEXT),
    key=st.none() | TEXT,
    event_time_ms=st.integers(1, 253_402_300_799_999),
    compression=st.sampled_from(CompressionType),
)
def test_a_message_sent_alone_is_pushed_as_it_was_sent(
    payload: bytes,
    properties: dict[str, str],
    key: str | None,
    event_time_ms: int,
    compression: CompressionType,
) -> None:
    sent = {
        "payload": base64.b64encode(payload).decode(),
        "properties": properties,
        "eventTime": format_time(event_time_ms),
        **({} if key is None else {"key": key}),
    }
    message = decode_frame(json.dumps(sent), 0)
    assert isinstance(message, ProducerMessage)
    entry = encode_single(
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1_714_557_600_000,
        payload=message.payload,
        properties=message.properties,
        key=message.key,
        event_time_ms=message.event_time_ms,
        compression=Compression[compression.value],
    )
    [stored] = decode_messages(entry, max_message_bytes=LIMIT)
    pushed = json.loads(push_frame("CAwQIjAA", push_fragment(stored), 0))
    assert pushed == sent | {
        "messageId": "CAwQIjAA",
        "publishTime": "2024-05-01T10:00:00Z",
        "redeliveryCount": 0,
    }


@pytest.mark.row("S0.25")
def test_members_of_a_batch_are_pushed_and_acked_one_by_one() -> None:
    entry = encode_batch(
        [OutgoingMessage(payload=b"a"), OutgoingMessage(payload=b"b")],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=0,
    )
    acks = BatchAcks()
    remaining = []
    for stored in decode_messages(entry, max_message_bytes=LIMIT):
        message_id = MessageId(12, 34, batch_index=stored.batch_index, batch_size=stored.batch_size)
        pushed = json.loads(push_frame(message_id.to_base64(), push_fragment(stored), 0))
        [command] = decode_commands(json.dumps({"messageId": pushed["messageId"]}))
        assert isinstance(command, Acknowledge)
        remaining += [ack.remaining for ack in acks.individual([command.message_id])]
    assert remaining == [0b10, 0b01]


@pytest.mark.parametrize(
    ("text", "ledger_id", "entry_id", "partition", "batch_index", "batch_size"),
    [
        ("CAAQAw==", 0, 3, -1, -1, 0),
        ("CAMQADAA", 3, 0, -1, -1, 0),
        ("CAwQIhgCMAA=", 12, 34, 2, -1, 0),
        ("CAwQIiABMAM=", 12, 34, -1, 1, 3),
    ],
)
def test_ids_written_by_pulsar_are_read(
    text: str, ledger_id: int, entry_id: int, partition: int, batch_index: int, batch_size: int
) -> None:
    [command] = decode_commands(json.dumps({"messageId": text}))
    assert isinstance(command, Acknowledge)
    assert command.message_id == MessageId(ledger_id, entry_id, partition, batch_index, batch_size)
    assert command.message_id.batch_size == batch_size
