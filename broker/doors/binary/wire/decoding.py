"""Decode a client's commands into events.

An ACK may have hundreds of thousands of ids, which take half a second to decode. Such a command is decoded in slices,
so that the broker can serve other connections between two slices.

This file is long because each command has its own function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.doors.binary.wire import events
from vela.wire import ack_set, varint
from vela.wire.binary.enums import AccessMode, InitialPosition, SubType, TopicsMode, ValidationError
from vela.wire.binary.fields import (
    complete,
    message_id_of,
    name_of,
    properties_of,
    schema_of,
    text_of,
)
from vela.wire.binary.frames import Frame
from vela.wire.errors import MalformedCommand, UnexpectedCommand
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import signed64

__all__ = [
    "DECODERS",
    "HAVE_SLICES",
    "SLICE_IDS",
    "UNBUILT",
    "decode_event",
    "decode_plain_send",
    "decode_slices",
]

SLICE_IDS: Final = 128

_SIGN: Final = 1 << 63
# Read these numbers only once, because each access to a protobuf class takes 0.2 to 0.4 µs.
_SEND: Final = pb.BaseCommand.SEND
_ACK: Final = pb.BaseCommand.ACK
_CUMULATIVE: Final = pb.CommandAck.Cumulative

# A plain SEND has a producer id below 128, a sequence id, an optional message count below 128, and no other field.
_PLAIN_SEND: Final = re.compile(
    rb"\x08\x06\x32[\x00-\x7f]\x08[\x00-\x7f]\x10([\x80-\xff]{0,8}[\x00-\x7f])(?:\x18([\x00-\x7f]))?"
)
_SEND_SIZE_AT: Final = 3
_PRODUCER_ID_AT: Final = 5
_new: Final = tuple.__new__  # 0.2 µs faster than a named tuple's constructor

HAVE_SLICES: Final = frozenset({_ACK, pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES})
"""Commands that `decode_slices` accepts."""


def decode_plain_send(frame: Frame) -> events.Send | None:
    """Decode a plain SEND in half the time that protobuf needs. Return None for any other frame."""
    command, entry = frame
    found = _PLAIN_SEND.fullmatch(command)
    if found is None or entry is None or command[_SEND_SIZE_AT] != len(command) - _SEND_SIZE_AT - 1:
        return None
    sequence, messages = found.groups()
    sequence_id = varint.value_of(sequence)
    return _new(
        events.Send,
        (command[_PRODUCER_ID_AT], sequence_id, None, messages[0] if messages else 1, False, False, entry),
    )


def decode_event(command: pb.BaseCommand, frame: Frame) -> events.Event:
    """Decode a command. Raises MalformedCommand. Raises UnexpectedCommand if only brokers send the command."""
    kind = command.type
    if kind == _SEND:
        return _send(command, frame)
    if frame.payload is not None:
        raise MalformedCommand(f"{name_of(kind)} carries {len(frame.payload)} bytes after its command")
    decoder = DECODERS.get(kind)
    if decoder is None:
        return _unsupported(command)
    return decoder(command)


def _send(command: pb.BaseCommand, frame: Frame) -> events.Send:
    body = command.send
    complete(body, command)
    if frame.payload is None:
        raise MalformedCommand("SEND carries no entry")
    sequence_id = body.sequence_id
    return events.Send(
        body.producer_id,
        sequence_id if sequence_id < _SIGN else signed64(sequence_id),
        signed64(body.highest_sequence_id) if body.HasField("highest_sequence_id") else None,
        body.num_messages,
        body.is_chunk,
        body.HasField("txnid_least_bits") and body.HasField("txnid_most_bits"),
        frame.payload,
    )


def decode_slices(command: pb.BaseCommand, frame: Frame) -> Iterator[events.Event]:
    """Decode an ACK or a REDELIVER_UNACKNOWLEDGED_MESSAGES.

    Only the last event of an ACK has the request id. Raises MalformedCommand.
    """
    many: Sequence[pb.MessageIdData]
    if command.type == _ACK:
        body = command.ack
        many = body.message_id if body.ack_type != _CUMULATIVE else ()
    else:
        many = command.redeliverUnacknowledgedMessages.message_ids
    if len(many) <= SLICE_IDS or frame.payload is not None:
        return iter((decode_event(command, frame),))
    starts = range(0, len(many), SLICE_IDS)
    if command.type == _ACK:
        complete(body, command)
        return (_ack_of(body, many[at : at + SLICE_IDS], is_last=at == starts[-1]) for at in starts)
    redeliver = command.redeliverUnacknowledgedMessages
    complete(redeliver, command)
    return (_redeliver_of(redeliver, many[at : at + SLICE_IDS], is_continuation=at > 0) for at in starts)


def _ack(command: pb.BaseCommand) -> events.Ack:
    body = command.ack
    complete(body, command)
    ids: Sequence[pb.MessageIdData] = body.message_id
    if body.ack_type == _CUMULATIVE:
        ids = ids[:2]  # Decode at most two ids, because two already make the ack invalid.
    return _ack_of(body, ids, is_last=True)


def _ack_of(body: pb.CommandAck, message_ids: Sequence[pb.MessageIdData], *, is_last: bool) -> events.Ack:
    ids = []
    for item in message_ids:
        ledger_id, entry_id = item.ledgerId, item.entryId
        if ledger_id >= _SIGN or entry_id >= _SIGN:
            ledger_id, entry_id = signed64(ledger_id), signed64(entry_id)
        words = item.ack_set
        ids.append(events.AckId(ledger_id, entry_id, ack_set.from_words(words) if words else None))
    return events.Ack(
        body.consumer_id,
        body.ack_type == _CUMULATIVE,
        ids,
        ValidationError(body.validation_error) if body.HasField("validation_error") else None,
        body.request_id if is_last and body.HasField("request_id") else None,
        body.HasField("txnid_least_bits") and body.HasField("txnid_most_bits"),
    )


def _flow(command: pb.BaseCommand) -> events.Flow:
    body = command.flow
    complete(body, command)
    return events.Flow(body.consumer_id, body.messagePermits)


def _redeliver(command: pb.BaseCommand) -> events.Redeliver:
    body = command.redeliverUnacknowledgedMessages
    complete(body, command)
    return _redeliver_of(body, body.message_ids, is_continuation=False)


def _redeliver_of(
    body: pb.CommandRedeliverUnacknowledgedMessages,
    message_ids: Sequence[pb.MessageIdData],
    *,
    is_continuation: bool,
) -> events.Redeliver:
    return events.Redeliver(
        body.consumer_id,
        [(signed64(item.ledgerId), signed64(item.entryId)) for item in message_ids],
        body.consumer_epoch if body.HasField("consumer_epoch") else None,
        is_continuation,
    )


def _connect(command: pb.BaseCommand) -> events.Connect:
    body = command.connect
    complete(body, command)
    return events.Connect(
        client_version=text_of(body.client_version),
        protocol_version=body.protocol_version,
        auth_method=text_of(body.auth_method_name) if body.HasField("auth_method_name") else None,
        auth_data=body.auth_data if body.HasField("auth_data") else None,
        proxy_to_broker_url=text_of(body.proxy_to_broker_url)
        if body.HasField("proxy_to_broker_url")
        else None,
        supports_auth_refresh=body.feature_flags.supports_auth_refresh,
        original_role=text_of(body.original_principal),
        original_method=text_of(body.original_auth_method) if body.HasField("original_auth_method") else None,
        original_data=text_of(body.original_auth_data).encode(),
    )


def _auth_response(command: pb.BaseCommand) -> events.AuthResponse:
    response = command.authResponse.response
    return events.AuthResponse(
        auth_method=text_of(response.auth_method_name) if response.HasField("auth_method_name") else None,
        auth_data=response.auth_data if response.HasField("auth_data") else None,
    )


def _partition_metadata(command: pb.BaseCommand) -> events.PartitionMetadata:
    body = command.partitionMetadata
    complete(body, command)
    return events.PartitionMetadata(
        topic=text_of(body.topic), request_id=body.request_id, create=body.metadata_auto_creation_enabled
    )


def _lookup(command: pb.BaseCommand) -> events.Lookup:
    body = command.lookupTopic
    complete(body, command)
    has_listener = body.HasField("advertised_listener_name")
    return events.Lookup(
        topic=text_of(body.topic),
        request_id=body.request_id,
        authoritative=body.authoritative,
        listener_name=text_of(body.advertised_listener_name) if has_listener else None,
    )


def _topics_of_namespace(command: pb.BaseCommand) -> events.GetTopicsOfNamespace:
    body = command.getTopicsOfNamespace
    complete(body, command)
    return events.GetTopicsOfNamespace(
        request_id=body.request_id,
        namespace=text_of(body.namespace),
        mode=TopicsMode(body.mode),
        pattern=text_of(body.topics_pattern) if body.HasField("topics_pattern") else None,
        topics_hash=text_of(body.topics_hash) if body.HasField("topics_hash") else None,
    )


def _open_producer(command: pb.BaseCommand) -> events.OpenProducer:
    body = command.producer
    complete(body, command)
    has = body.HasField
    return events.OpenProducer(
        topic=text_of(body.topic),
        producer_id=body.producer_id,
        request_id=body.request_id,
        producer_name=text_of(body.producer_name) if has("producer_name") else None,
        user_provided_name=body.user_provided_producer_name,
        encrypted=body.encrypted,
        properties=properties_of(body.metadata),
        schema=schema_of(body.schema) if has("schema") else None,
        epoch=body.epoch,
        access_mode=AccessMode(body.producer_access_mode),
        topic_epoch=body.topic_epoch if has("topic_epoch") else None,
        initial_subscription=(
            text_of(body.initial_subscription_name) if has("initial_subscription_name") else None
        ),
        in_transaction=body.txn_enabled,
    )


def _close_producer(command: pb.BaseCommand) -> events.CloseProducer:
    body = command.close_producer
    complete(body, command)
    return events.CloseProducer(producer_id=body.producer_id, request_id=body.request_id)


def _subscribe(command: pb.BaseCommand) -> events.Subscribe:
    body = command.subscribe
    complete(body, command)
    has = body.HasField
    key_shared = body.keySharedMeta
    return events.Subscribe(
        topic=text_of(body.topic),
        subscription=text_of(body.subscription),
        type=SubType(body.subType),
        consumer_id=body.consumer_id,
        request_id=body.request_id,
        consumer_name=text_of(body.consumer_name),
        priority=body.priority_level,
        durable=body.durable,
        start=message_id_of(body.start_message_id) if has("start_message_id") else None,
        start_ack_set=ack_set.from_words(body.start_message_id.ack_set),
        initial_position=InitialPosition(body.initialPosition),
        rollback_s=body.start_message_rollback_duration_sec,
        create_topic=body.force_topic_creation,
        read_compacted=body.read_compacted,
        replicate_state=body.replicate_subscription_state,
        properties=properties_of(body.metadata),
        subscription_properties=properties_of(body.subscription_properties),
        schema=schema_of(body.schema) if has("schema") else None,
        key_shared_sticky=has("keySharedMeta") and key_shared.keySharedMode == pb.STICKY,
        key_shared_ranges=[(item.start, item.end) for item in key_shared.hashRanges],
        key_shared_out_of_order=key_shared.allowOutOfOrderDelivery,
        epoch=body.consumer_epoch if has("consumer_epoch") else None,
    )


def _unsubscribe(command: pb.BaseCommand) -> events.Unsubscribe:
    body = command.unsubscribe
    complete(body, command)
    return events.Unsubscribe(consumer_id=body.consumer_id, request_id=body.request_id, force=body.force)


def _seek(command: pb.BaseCommand) -> events.Seek:
    body = command.seek
    complete(body, command)
    has = body.HasField
    return events.Seek(
        consumer_id=body.consumer_id,
        request_id=body.request_id,
        message_id=message_id_of(body.message_id) if has("message_id") else None,
        ack_set=ack_set.from_words(body.message_id.ack_set),
        publish_time_ms=signed64(body.message_publish_time) if has("message_publish_time") else None,
    )


def _close_consumer(command: pb.BaseCommand) -> events.CloseConsumer:
    body = command.close_consumer
    complete(body, command)
    return events.CloseConsumer(consumer_id=body.consumer_id, request_id=body.request_id)


def _get_last_message_id(command: pb.BaseCommand) -> events.GetLastMessageId:
    body = command.getLastMessageId
    complete(body, command)
    return events.GetLastMessageId(consumer_id=body.consumer_id, request_id=body.request_id)


def _consumer_stats(command: pb.BaseCommand) -> events.ConsumerStats:
    body = command.consumerStats
    complete(body, command)
    return events.ConsumerStats(consumer_id=body.consumer_id, request_id=body.request_id)


def _get_schema(command: pb.BaseCommand) -> events.GetSchema:
    body = command.getSchema
    complete(body, command)
    return events.GetSchema(
        topic=text_of(body.topic),
        request_id=body.request_id,
        version=body.schema_version if body.HasField("schema_version") else None,
    )


def _get_or_create_schema(command: pb.BaseCommand) -> events.GetOrCreateSchema:
    body = command.getOrCreateSchema
    complete(body, command)
    return events.GetOrCreateSchema(
        topic=text_of(body.topic), request_id=body.request_id, schema=schema_of(body.schema)
    )


def _watch_topic_list(command: pb.BaseCommand) -> events.WatchTopicList:
    body = command.watchTopicList
    complete(body, command)
    return events.WatchTopicList(
        request_id=body.request_id,
        watcher_id=body.watcher_id,
        namespace=text_of(body.namespace),
        pattern=text_of(body.topics_pattern),
        topics_hash=text_of(body.topics_hash) if body.HasField("topics_hash") else None,
    )


def _close_topic_watcher(command: pb.BaseCommand) -> events.CloseTopicWatcher:
    body = command.watchTopicListClose
    complete(body, command)
    return events.CloseTopicWatcher(request_id=body.request_id, watcher_id=body.watcher_id)


DECODERS: Final[dict[int, Callable[[pb.BaseCommand], events.Event]]] = {
    pb.BaseCommand.CONNECT: _connect,
    pb.BaseCommand.SUBSCRIBE: _subscribe,
    pb.BaseCommand.PRODUCER: _open_producer,
    pb.BaseCommand.ACK: _ack,
    pb.BaseCommand.FLOW: _flow,
    pb.BaseCommand.UNSUBSCRIBE: _unsubscribe,
    pb.BaseCommand.CLOSE_PRODUCER: _close_producer,
    pb.BaseCommand.CLOSE_CONSUMER: _close_consumer,
    pb.BaseCommand.PING: lambda _: events.Ping(),
    pb.BaseCommand.PONG: lambda _: events.Pong(),
    pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: _redeliver,
    pb.BaseCommand.PARTITIONED_METADATA: _partition_metadata,
    pb.BaseCommand.LOOKUP: _lookup,
    pb.BaseCommand.CONSUMER_STATS: _consumer_stats,
    pb.BaseCommand.SEEK: _seek,
    pb.BaseCommand.GET_LAST_MESSAGE_ID: _get_last_message_id,
    pb.BaseCommand.GET_TOPICS_OF_NAMESPACE: _topics_of_namespace,
    pb.BaseCommand.AUTH_RESPONSE: _auth_response,
    pb.BaseCommand.GET_SCHEMA: _get_schema,
    pb.BaseCommand.GET_OR_CREATE_SCHEMA: _get_or_create_schema,
    pb.BaseCommand.WATCH_TOPIC_LIST: _watch_topic_list,
    pb.BaseCommand.WATCH_TOPIC_LIST_CLOSE: _close_topic_watcher,
}

_NO_TRANSACTIONS: Final = "there are no transactions"
_NO_SCALABLE_TOPICS: Final = (
    "there are no scalable topics: Pulsar has not finished their part of the protocol"
)
UNBUILT: Final[dict[int, str]] = {
    pb.BaseCommand.NEW_TXN: _NO_TRANSACTIONS,
    pb.BaseCommand.ADD_PARTITION_TO_TXN: _NO_TRANSACTIONS,
    pb.BaseCommand.ADD_SUBSCRIPTION_TO_TXN: _NO_TRANSACTIONS,
    pb.BaseCommand.END_TXN: _NO_TRANSACTIONS,
    pb.BaseCommand.END_TXN_ON_PARTITION: _NO_TRANSACTIONS,
    pb.BaseCommand.END_TXN_ON_SUBSCRIPTION: _NO_TRANSACTIONS,
    pb.BaseCommand.TC_CLIENT_CONNECT_REQUEST: _NO_TRANSACTIONS,
    pb.BaseCommand.SCALABLE_TOPIC_LOOKUP: _NO_SCALABLE_TOPICS,
    pb.BaseCommand.SCALABLE_TOPIC_CLOSE: _NO_SCALABLE_TOPICS,
    pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE: _NO_SCALABLE_TOPICS,
    pb.BaseCommand.WATCH_SCALABLE_TOPICS: _NO_SCALABLE_TOPICS,
    pb.BaseCommand.WATCH_SCALABLE_TOPICS_CLOSE: _NO_SCALABLE_TOPICS,
    pb.BaseCommand.WATCH_TC_ASSIGNMENTS: _NO_TRANSACTIONS,
    pb.BaseCommand.WATCH_TC_ASSIGNMENTS_CLOSE: _NO_TRANSACTIONS,
}
"""Client commands that Vela refuses, with the reasons."""


def _unsupported(command: pb.BaseCommand) -> events.Unsupported:
    name = name_of(command.type)
    reason = UNBUILT.get(command.type)
    if reason is None:
        raise UnexpectedCommand(f"{name} is a broker's command; a client must not send it")
    field = pb.BaseCommand.DESCRIPTOR.fields_by_number.get(command.type)
    if field is None:
        return events.Unsupported(name=name, reason=reason, request_id=None)
    body = getattr(command, field.name)
    complete(body, command)
    return events.Unsupported(name=name, reason=reason, request_id=body.request_id)
