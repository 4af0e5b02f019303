"""The faces: the parsers and APIs that take input from outside. They run in this process.

Each face takes generated inputs. A face may refuse an input, but only with the errors that it documents.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.doors.binary.wire.engine import ServerEngine
from broker.doors.binary.wire.events import Connect, Event
from broker.doors.entry_facts import check_chunk, entry_flags
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.pull.wire.request import parse_offset_request, parse_pull_request, parse_pull_topic
from broker.doors.query import parse_query
from broker.doors.websocket.json import consumer, options, paths, producer, reader
from broker.doors.websocket.json.batch_acks import BatchAcks
from broker.doors.websocket.json.errors import MAX_CLOSE_REASON_BYTES, SessionError
from tests.fuzz.admin import admin_body, take_admin
from tests.fuzz.byte_mutations import mutated_bytes
from tests.fuzz.json_mutations import mutated_json
from tests.fuzz.protobuf_mutations import Fields, encoded, filled, mutated_fields, parsed
from tests.support.record_apache import DATA
from vela.wire.binary import commands
from vela.wire.binary.client import ClientEngine
from vela.wire.binary.frames import Frame, FrameDecoder, payload_frame_head, simple_frame
from vela.wire.binary.replies import Reply
from vela.wire.checksum import PREFIX_BYTES, with_checksum
from vela.wire.entry import (
    OutgoingMessage,
    decode_encrypted,
    decode_messages,
    encode_batch,
    encode_single,
    last_sequence_id,
    parse_header,
)
from vela.wire.errors import EntryCorrupt, InvalidPull, RemoteProtocolError
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

__all__ = ["FACES", "Face", "client_commands", "json_frame", "mutated_entry", "pull_address"]

_LARGEST_EXAMPLE_BYTES: Final = 1500
_MAX_MESSAGE_BYTES: Final = 1 << 16
_NOW_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One face. `take` returns if the input was understood or refused as documented, and raises otherwise."""

    name: str
    generate: Callable[[Random], bytes]
    take: Callable[[bytes], None]


def _recorded(side: str) -> list[Frame]:
    """Return the different frames that Apache's client ("client") or a Vela ("broker") sent in the recordings."""
    frames: dict[Frame, None] = {}
    for file in sorted(DATA.glob(f"*.{side}.*.gz")):
        for each in FrameDecoder(1 << 20).feed(gzip.decompress(file.read_bytes())):
            if len(each.command) + len(each.payload or b"") <= _LARGEST_EXAMPLE_BYTES:
                frames[each] = None
    return list(frames)


def _every_command() -> list[Frame]:
    """Return every command of the protocol with all of its fields."""
    frames = []
    for field in BaseCommand.DESCRIPTOR.fields:
        if field.message_type is not None:
            command = BaseCommand(type=BaseCommand.Type.Name(field.number))  # type: ignore[arg-type]  # takes names too
            filled(getattr(command, field.name), 1)
            frames.append(Frame(command.SerializeToString(), None))
    return frames


# -- the binary protocol


class _Frames:
    """Generates streams of frames: a greeting, then one to three mutated commands, all kinds equally often."""

    def __init__(self, examples: Sequence[Frame], greeting: bytes) -> None:
        kinds: dict[bytes, list[tuple[Frame, Fields]]] = {}
        for each in examples:
            kinds.setdefault(each.command[:2], []).append((each, parsed(each.command) or []))
        self._kinds = list(kinds.values())
        self._pieces = [each.command for each in examples]
        self._greeting = greeting

    def __call__(self, random: Random) -> bytes:
        stream = self._greeting if random.random() < 0.95 else b""
        for _ in range(1 + int(random.random() ** 3 * 3)):
            stream += self._frame(random)
        return stream if random.random() < 0.9 else mutated_bytes(random, stream, self._pieces)

    def _frame(self, random: Random) -> bytes:
        kind = self._kinds[int(random.random() * len(self._kinds))]
        example, fields = kind[int(random.random() * len(kind))]
        command, payload = example.command, example.payload
        chance = random.random()
        if chance < 0.75:
            # Keep the first field, the type, so that only the command's own fields are wrong.
            command = encoded([fields[0], *mutated_fields(random, fields[1:], self._pieces)])
        elif chance < 0.85:
            command = mutated_bytes(random, command, self._pieces)
        if payload is not None and random.random() < 0.3:
            payload = mutated_entry(random, payload)
        if payload is None and random.random() < 0.98:
            return simple_frame(command)
        body = payload or b"x"
        return payload_frame_head(command, len(body)) + body


def _take_as_broker(stream: bytes) -> None:
    whole = _server_events(stream, len(stream) + 1)
    if len(stream) % 8 == 0:
        assert _server_events(stream, 7) == whole, "the events depend on where the stream is cut"


def _server_events(stream: bytes, piece_bytes: int) -> tuple[list[Event], type[Exception] | None]:
    engine = ServerEngine(server_version="Vela", max_message_bytes=_MAX_MESSAGE_BYTES)
    events: list[Event] = []
    try:
        for at in range(0, len(stream), piece_bytes):
            found = engine.receive(stream[at : at + piece_bytes], most=1)
            while True:
                events += found
                if found and type(found[0]) is Connect:
                    engine.send_connected()
                if not engine.has_more:
                    break
                found = engine.receive(b"", most=1)
    except RemoteProtocolError as error:
        return events, type(error)
    return events, None


def _is_for_a_broker(example: Frame) -> bool:
    """Return whether the broker accepts the command and keeps reading."""
    command, payload = example.command, example.payload
    frame = simple_frame(command) if payload is None else payload_frame_head(command, len(payload)) + payload
    _, error = _server_events(_CONNECT + frame, 1 << 20)
    return error is None


def _take_as_client(stream: bytes) -> None:
    whole = _replies(stream, len(stream) + 1)
    if len(stream) % 8 == 0:
        assert _replies(stream, 7) == whole, "the replies depend on where the stream is cut"


def _replies(stream: bytes, piece_bytes: int) -> tuple[list[object], type[Exception] | None]:
    engine = ClientEngine(client_version="Vela")
    engine.connect()
    replies: list[object] = []
    try:
        for at in range(0, len(stream), piece_bytes):
            found: list[Reply] = engine.receive(stream[at : at + piece_bytes])
            replies += found
            if engine.state.value == "failed":
                break
    except RemoteProtocolError as error:
        return [*replies, *error.events], type(error)
    return replies, None


# -- entries

_GROUP: Final = OutgoingMessage(payload=b"one of them", properties={"a": "b"}, key="k", event_time_ms=3)
_ENTRIES: Final = [
    *(each.payload for each in _recorded("client") if each.payload is not None),
    encode_single(
        producer_name="p", sequence_id=1, publish_time_ms=1, payload=b"alone", key="k", properties={"a": "b"}
    ),
    encode_batch([_GROUP] * 5, producer_name="p", sequence_id=1, publish_time_ms=1),
    encode_batch(
        [OutgoingMessage(payload=b"plain")] * 50, producer_name="p", sequence_id=1, publish_time_ms=1
    ),
]


def _split(entry: bytes) -> tuple[bytes, Fields, bytes]:
    start = PREFIX_BYTES + 4
    end = start + int.from_bytes(entry[PREFIX_BYTES:start], "big")
    return entry, parsed(entry[start:end]) or [], entry[end:]


_SPLIT_ENTRIES: Final = [_split(each) for each in _ENTRIES]


def mutated_entry(random: Random, entry: bytes | None = None) -> bytes:
    """Return a changed entry, or without `entry` a changed example. Nine of ten have the right checksum."""
    whole, fields, payload = (
        _SPLIT_ENTRIES[int(random.random() * len(_SPLIT_ENTRIES))] if entry is None else _split(entry)
    )
    chance = random.random()
    if chance < 0.1:
        return mutated_bytes(random, whole, _ENTRIES)
    if chance < 0.7:
        fields = mutated_fields(random, fields, _ENTRIES)
    if chance > 0.5:
        payload = mutated_bytes(random, payload, _ENTRIES)
    metadata = encoded(fields)
    return with_checksum(len(metadata).to_bytes(4, "big") + metadata + payload)


def _take_entry(entry: bytes) -> None:
    try:
        header = parse_header(entry)
    except EntryCorrupt:
        pass
    else:
        header.sticky_key()
        entry_flags(header)
        try:
            check_chunk(header)
        except BrokerError:
            pass
        else:
            assert 0 <= header.chunk_id < header.num_chunks
    for decode in (last_sequence_id, decode_messages):
        try:
            found = decode(entry, max_message_bytes=_MAX_MESSAGE_BYTES)
        except EntryCorrupt:
            continue
        if isinstance(found, list):
            size_bytes = sum(len(each.payload) for each in found)
            assert size_bytes <= _MAX_MESSAGE_BYTES, f"{size_bytes} bytes came out"
            for message in found:
                consumer.push_fragment(message)
    with contextlib.suppress(EntryCorrupt):
        consumer.encrypted_fragment(decode_encrypted(entry))


# -- JSON

_ID: Final = "CAEQAiAAMAA="
_JSON: Final[list[Any]] = [
    {"payload": "aGVsbG8=", "properties": {"a": "b"}, "context": "1", "key": "k"},
    {
        "payload": "aGVsbG8=",
        "eventTime": "2023-01-01T00:00:00.000+00:00",
        "deliverAt": 1,
        "deliverAfterMs": 1000,
        "replicationClusters": ["a"],
    },
    {"payload": "aGk=", "encryptionParam": "AAAA", "compressionType": "LZ4", "uncompressedMessageSize": 5},
    [{"payload": "aGk="}, {"payload": "aGk=", "context": "2"}],
    {"messageId": _ID},
    {"type": "acknowledge", "ackType": "cumulative", "messageId": _ID},
    {"type": "negativeAcknowledge", "messageId": _ID},
    {"type": "reconsumeLater", "messageId": _ID, "delayMillis": 5, "properties": {"a": "b"}},
    {"type": "permit", "permitMessages": 5},
    {"type": "unsubscribe"},
    {"type": "isEndOfTopic"},
]
_JSON_TEXTS: Final = [json.dumps(each).encode() for each in _JSON]


def json_frame(random: Random) -> bytes:
    """Return a frame for a JSON WebSocket."""
    return mutated_json(random, _JSON[int(random.random() * len(_JSON))], _JSON_TEXTS)


def _take_json(frame: bytes) -> None:
    for is_encrypted in (False, True):
        decoded = producer.decode_frame(frame, _NOW_MS, is_encrypted=is_encrypted)
        for each in decoded if isinstance(decoded, list) else [decoded]:
            if isinstance(each, producer.SendError):
                each.to_frame()
            else:
                _publish(each)
    try:
        for command in consumer.decode_commands(frame):
            if isinstance(command, consumer.Acknowledge):
                BatchAcks().individual([command.message_id])
                BatchAcks(batch_index_acks=False).cumulative(command.message_id)
    except SessionError as error:
        close_reason_bytes = len(error.reason.encode())
    else:
        close_reason_bytes = 0
    assert close_reason_bytes <= MAX_CLOSE_REASON_BYTES, "a close frame has no room for the reason"
    with contextlib.suppress(SessionError):
        reader.decode_reader_frame(frame)


def _publish(message: producer.ProducerMessage) -> None:
    producer.ack_frame(_ID, message.context)
    encode_single(
        producer_name="p",
        sequence_id=0,
        publish_time_ms=_NOW_MS,
        payload=message.payload,
        properties=message.properties,
        key=message.key,
        event_time_ms=message.event_time_ms,
        deliver_at_ms=message.deliver_at_ms,
    )


# -- queries

_PULLS: Final = [
    b"/pull/v1/public/default/orders?queue=0&offset=0&max_messages=5&tags=a||b&suspend=true&suspend_timeout_ms=1",
    b"/pull/v1/public/default/orders?offset=0&filter=a%20%3E%203%20AND%20(b%20%3D%20'x'%20OR%20c%20IS%20NULL)",
    b"/pull/v1/public/default/orders?offset=1&filter=a+BETWEEN+1+AND+5+AND+NOT+b+IN+('x','y')",
    b"/pull/v1/public/default/orders?subscription=group&queue=1",
    b"/pull/v1/public/default/orders?subscription=group&queue=1&offset=77",
]
_HANDSHAKES: Final = [
    b"persistent/public/default/orders/s?subscriptionType=Shared&ackTimeoutMillis=5000&maxRedeliverCount=3&deadLetterTopic=d",
    b"persistent/public/default/orders/s?receiverQueueSize=5&pullMode=true&negativeAckRedeliveryDelay=5&priorityLevel=1",
    b"persistent/public/default/orders/s?negativeAckRedeliveryBackoff=100,5000,2.0&cryptoFailureAction=CONSUME",
    b"persistent/public/default/orders/s?messageId=earliest&readerName=r",
    b"persistent/public/default/orders/s?messageId=" + _ID.encode(),
    b"non-persistent/public/default/a%2Fb/s?producerName=p&initialSequenceId=5&batchingEnabled=true&batchingMaxMessages=7",
    b"persistent/public/default/orders/s?encryptionKeys=%5B%7B%22keyName%22%3A%22k%22%2C%22keyValue%22%3A%22AAAA%22%7D%5D",
    b"persistent/public/default/orders/s?topicsPattern=persistent://public/default/o.*",
    b"persistent/public/default/orders/s?topics=persistent://public/default/a,b",
]
_PROPERTIES: Final = {"a": "4", "b": "x", "TAGS": "a"}


def pull_address(random: Random) -> bytes:
    """Return path and query of a pull."""
    return mutated_bytes(random, _PULLS[int(random.random() * len(_PULLS))], _PULLS)


def _take_pull(address: bytes) -> None:
    path, _, query = address.decode("latin-1").partition("?")
    try:
        topic = parse_pull_topic(path, "/pull/v1/")
        TopicName.parse(topic)
    except (InvalidPull, BrokerError):
        topic = "persistent://public/default/orders"
    try:
        request = parse_pull_request(topic, query)
        if request.property_filter is not None:
            request.property_filter(_PROPERTIES)
    except InvalidPull:
        pass
    for is_commit in (False, True):
        with contextlib.suppress(InvalidPull):
            parse_offset_request(topic, query, is_commit=is_commit)


def _handshake(random: Random) -> bytes:
    return mutated_bytes(random, _HANDSHAKES[int(random.random() * len(_HANDSHAKES))], _HANDSHAKES)


def _take_handshake(address: bytes) -> None:
    path, _, query_string = address.partition(b"?")
    names = ("domain", "tenant", "namespace", "topic", "subscription")
    pieces = dict(zip(names, path.decode("latin-1").split("/", 4), strict=False))
    if len(pieces) == len(names):
        try:
            TopicName.parse(paths.full_topic(pieces))
            paths.subscription_name(pieces["subscription"])
        except (HandshakeRefused, BrokerError):
            pass
    try:
        query = parse_query(query_string)
    except HandshakeRefused:
        return
    for read in (
        options.producer_options,
        options.consumer_options,
        options.reader_options,
        paths.requested_topics,
    ):
        with contextlib.suppress(HandshakeRefused):
            read(query)


_CONNECT: Final = commands.connect(client_version="fuzz", protocol_version=21)
_CONNECTED: Final = simple_frame(
    next(
        each.command
        for each in _recorded("broker")
        if BaseCommand.FromString(each.command).type == BaseCommand.CONNECTED
    )
)

client_commands: Final = _Frames(
    [each for each in _recorded("client") + _every_command() if _is_for_a_broker(each)], b""
)
"""Generates streams for an open connection, without CONNECT and without commands that brokers always refuse."""

FACES: Final = (
    Face(
        name="server",
        generate=_Frames(_recorded("client") + _every_command(), _CONNECT),
        take=_take_as_broker,
    ),
    Face(
        name="client",
        generate=_Frames(_recorded("broker") + _every_command(), _CONNECTED),
        take=_take_as_client,
    ),
    Face(name="entry", generate=mutated_entry, take=_take_entry),
    Face(name="json", generate=json_frame, take=_take_json),
    Face(name="pull", generate=pull_address, take=_take_pull),
    Face(name="handshake", generate=_handshake, take=_take_handshake),
    Face(name="admin", generate=admin_body, take=take_admin),
)
