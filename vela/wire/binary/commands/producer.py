"""Producers: opening, sending, receipts, closing."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from vela.wire import varint
from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.commands.schema import schema_body
from vela.wire.binary.enums import AccessMode, ServerError
from vela.wire.binary.frames import payload_frame_head
from vela.wire.binary.schema import Schema
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = ["close_producer", "producer", "producer_success", "send", "send_error", "send_receipt"]

_SIZES: Final = struct.Struct(">II")
_RECEIPT: Final = b"\x08\x07\x3a"  # type = SEND_RECEIPT, then field 7
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
    """PRODUCER: opens one. `encrypted`: it promises that every payload will be."""
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


def producer_success(
    request_id: int,
    *,
    name: str,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    """PRODUCER_SUCCESS. `last_sequence_id` -1 = nothing stored under the name; `ready` False = queued."""
    body = pb.CommandProducerSuccess(
        request_id=request_id,
        producer_name=name,
        last_sequence_id=last_sequence_id,
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=ready,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS, producer_success=body))


def send(
    producer_id: int,
    sequence_id: int,
    entry: bytes,
    *,
    messages: int | None = None,
    highest_sequence_id: int | None = None,
    is_chunk: bool = False,
) -> tuple[bytes, bytes]:
    """SEND as two buffers, to be written one after the other; `messages` is given for batches."""
    body = pb.CommandSend(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        num_messages=messages,
        highest_sequence_id=highest_sequence_id,
        is_chunk=True if is_chunk else None,
    )
    command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=body).SerializeToString()
    return payload_frame_head(command, len(entry)), entry


def send_receipt(
    producer_id: int,
    sequence_id: int,
    *,
    ledger_id: int,
    entry_id: int,
    highest_sequence_id: int | None = None,
) -> bytes:
    """SEND_RECEIPT, encoded by hand; both sequence ids exactly as the SEND had them.

    Ledger and entry -1 for a duplicate that was dropped.
    """
    encode = varint.encode
    where = b"\x08%b\x10%b" % (encode(ledger_id), encode(entry_id))
    body = b"\x08%b\x10%b\x1a%c%b" % (encode(producer_id), encode(sequence_id), len(where), where)
    if highest_sequence_id is not None:
        body += b"\x20" + encode(highest_sequence_id)
    size = len(body) + 4
    return _SIZES.pack(size + 4, size) + b"%b%c%b" % (_RECEIPT, size - 4, body)


def send_error(producer_id: int, sequence_id: int, code: ServerError, message: str) -> bytes:
    """SEND_ERROR; `sequence_id` is the higher of the SEND's two."""
    body = pb.CommandSendError(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        error=error_value(code),
        message=message,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SEND_ERROR, send_error=body))


def close_producer(producer_id: int, *, request_id: int) -> bytes:
    """CLOSE_PRODUCER; the broker's own carries `NO_REQUEST`."""
    body = pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id & UINT64_MASK)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CLOSE_PRODUCER, close_producer=body))
