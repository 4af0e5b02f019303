"""Builders for answers to producers: PRODUCER_SUCCESS, SEND_RECEIPT and SEND_ERROR."""

from __future__ import annotations

import struct
from typing import Final

from vela.wire import varint
from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.enums import ServerError
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = ["producer_success", "send_error", "send_receipt"]

_SIZES: Final = struct.Struct(">II")
_RECEIPT: Final = b"\x08\x07\x3a"  # type = SEND_RECEIPT, then field 7


def producer_success(
    request_id: int,
    *,
    name: str,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    """Build PRODUCER_SUCCESS. `last_sequence_id` is -1 if the broker does not know the last one that this name stored.

    `ready` is False while the producer waits for exclusive access.
    """
    body = pb.CommandProducerSuccess(
        request_id=request_id,
        producer_name=name,
        last_sequence_id=last_sequence_id,
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=ready,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS, producer_success=body))


def send_receipt(
    producer_id: int,
    sequence_id: int,
    *,
    ledger_id: int,
    entry_id: int,
    highest_sequence_id: int | None = None,
) -> bytes:
    """Build SEND_RECEIPT by hand. Both sequence ids must be exactly those of the SEND.

    Ledger and entry are -1 if the message was a duplicate and was not stored again.
    """
    encode = varint.encode
    where = b"\x08%b\x10%b" % (encode(ledger_id), encode(entry_id))
    body = b"\x08%b\x10%b\x1a%c%b" % (encode(producer_id), encode(sequence_id), len(where), where)
    if highest_sequence_id is not None:
        body += b"\x20" + encode(highest_sequence_id)
    size = len(body) + 4
    return _SIZES.pack(size + 4, size) + b"%b%c%b" % (_RECEIPT, size - 4, body)


def send_error(producer_id: int, sequence_id: int, code: ServerError, message: str) -> bytes:
    """Build SEND_ERROR. `sequence_id` names the refused SEND."""
    body = pb.CommandSendError(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        error=error_value(code),
        message=message,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SEND_ERROR, send_error=body))
