"""Producers: opening, sending, closing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vela.wire.binary.commands.connection import frame_of
from vela.wire.binary.commands.schema import schema_body
from vela.wire.binary.enums import AccessMode
from vela.wire.binary.frames import payload_frame_head
from vela.wire.binary.schema import Schema
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = ["close_producer", "producer", "send"]

_NO_PROPERTIES: Final[Mapping[str, str]] = {}


def producer(
    topic: str,
    *,
    producer_id: int,
    request_id: int,
    name: str | None = None,
    epoch: int = 0,
    access_mode: AccessMode = AccessMode.SHARED,
    user_provided_name: bool = True,
    properties: Mapping[str, str] = _NO_PROPERTIES,
    initial_subscription: str | None = None,
    topic_epoch: int | None = None,
    schema: Schema | None = None,
    encrypted: bool = False,
) -> bytes:
    """PRODUCER: opens a producer. `encrypted`: the producer promises to encrypt every payload."""
    body = pb.CommandProducer(
        topic=topic,
        producer_id=producer_id,
        request_id=request_id,
        producer_name=name,
        epoch=epoch,
        producer_access_mode=pb.ProducerAccessMode.ValueType(access_mode),
        user_provided_producer_name=user_provided_name,
        metadata=[pb.KeyValue(key=key, value=value) for key, value in properties.items()],
        initial_subscription_name=initial_subscription,
        topic_epoch=topic_epoch,
        schema=None if schema is None else schema_body(schema),
        encrypted=True if encrypted else None,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=body))


def send(
    producer_id: int,
    sequence_id: int,
    entry: bytes,
    *,
    messages: int | None = None,
    highest_sequence_id: int | None = None,
    is_chunk: bool = False,
) -> tuple[bytes, bytes]:
    """SEND: publishes an entry. Returns two buffers to write one after the other.

    `messages`: the number of messages in a batch; None = not a batch.
    """
    body = pb.CommandSend(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        num_messages=messages,
        highest_sequence_id=highest_sequence_id,
        is_chunk=True if is_chunk else None,
    )
    command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=body).SerializeToString()
    return payload_frame_head(command, len(entry)), entry


def close_producer(producer_id: int, *, request_id: int) -> bytes:
    """CLOSE_PRODUCER: closes a producer. If the broker sends it, its request id is `NO_REQUEST`."""
    body = pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id & UINT64_MASK)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CLOSE_PRODUCER, close_producer=body))
