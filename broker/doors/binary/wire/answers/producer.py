"""Builders for PRODUCER_SUCCESS, SEND_RECEIPT and SEND_ERROR."""

from __future__ import annotations

from collections.abc import Iterable

from vela.wire import varint
from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.enums import ServerError
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = ["ReceiptFields", "producer_success", "send_error", "send_receipts"]

ReceiptFields = tuple[int, int, int, int, int]
"""Sequence id, highest sequence id (0 if absent), ledger id, entry id, entry size."""


def producer_success(
    request_id: int,
    *,
    name: str,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    """Build PRODUCER_SUCCESS. `last_sequence_id` is -1 if no sequence id of the producer is stored."""
    body = pb.CommandProducerSuccess(
        request_id=request_id,
        producer_name=name,
        last_sequence_id=last_sequence_id,
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=ready,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS, producer_success=body))


def send_receipts(producer_id: int, receipts: Iterable[ReceiptFields]) -> list[bytes]:
    """Build a SEND_RECEIPT for each receipt.

    For a duplicate, ledger id and entry id are -1.
    """
    encode = varint.encode
    frames: list[bytes] = []
    producer, ledger = encode(producer_id), b""
    known_id: int | None = None
    for sequence_id, highest_sequence_id, ledger_id, entry_id, _ in receipts:
        if ledger_id != known_id:
            known_id, ledger = ledger_id, encode(ledger_id)
        where = b"\x08%b\x10%b" % (ledger, encode(entry_id))
        body = b"\x08%b\x10%b\x1a%c%b" % (producer, encode(sequence_id), len(where), where)
        if highest_sequence_id:
            body += b"\x20" + encode(highest_sequence_id)
        size = len(body)  # At most 57, so each of the three sizes below fits in one byte
        # The bytes 08 07 encode the type SEND_RECEIPT. The byte 3a begins field 7.
        frames.append(b"\x00\x00\x00%c\x00\x00\x00%c\x08\x07\x3a%c%b" % (size + 8, size + 4, size, body))
    return frames


def send_error(producer_id: int, sequence_id: int, code: ServerError, message: str) -> bytes:
    """Build SEND_ERROR."""
    body = pb.CommandSendError(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        error=error_value(code),
        message=message,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SEND_ERROR, send_error=body))
