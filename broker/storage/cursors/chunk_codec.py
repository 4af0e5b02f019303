"""Encode ack sets, cursor snapshots and overlays for bytea columns.

An overlay tells the undo of a cursor move which acks to keep and which acks to remove.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping

from broker.core.cursor.state import AckChunk, AckOverlay, CursorState
from broker.core.position import Position

__all__ = [
    "decode_ack_sets",
    "decode_overlay",
    "decode_snapshot",
    "encode_ack_sets",
    "encode_overlay",
    "encode_snapshot",
]

_VERSION = b"\x01"
_HEAD = struct.Struct("<QH")  # Entry id, and size of the bitset in bytes


def encode_ack_sets(ack_sets: Mapping[int, int]) -> bytes:
    """Encode bitsets of unacked messages. The keys are entry ids.

    For an empty mapping, return one byte. If the result were empty, the `flush` query would keep the stored ack sets.
    """
    parts = [_VERSION]
    for entry_id, bits in ack_sets.items():
        size = (bits.bit_length() + 7) // 8
        parts.append(_HEAD.pack(entry_id, size) + bits.to_bytes(size, "little"))
    return b"".join(parts)


def decode_ack_sets(data: bytes) -> dict[int, int]:
    """Decode ack sets. Empty bytes mean no ack sets.

    Raises ValueError or struct.error if the version is unknown or the data is cut off.
    """
    if not data:
        return {}
    if data[:1] != _VERSION:
        raise ValueError(f"ack sets of version {data[0]}; this broker reads version {_VERSION[0]}")
    found: dict[int, int] = {}
    at = 1
    while at < len(data):
        entry_id, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + size > len(data):
            raise ValueError("ack sets end too early")
        found[entry_id] = int.from_bytes(data[at : at + size], "little")
        at += size
    return found


def encode_snapshot(state: CursorState) -> bytes:
    """Encode the state of a cursor."""
    return json.dumps(
        {
            "mark_delete": list(state.mark_delete),
            "acked": [state.acked_messages, state.acked_entries, state.acked_bytes],
            "version": state.version,
            "chunks": [_chunk_to_json(chunk) for chunk in state.chunks],
        }
    ).encode()


def decode_snapshot(data: bytes) -> CursorState:
    """Decode bytes from `encode_snapshot`."""
    raw = json.loads(data)
    acked_messages, acked_entries, acked_bytes = raw["acked"]
    return CursorState(
        mark_delete=Position(*raw["mark_delete"]),
        acked_messages=acked_messages,
        acked_entries=acked_entries,
        acked_bytes=acked_bytes,
        chunks=tuple(_chunk_from_json(chunk) for chunk in raw["chunks"]),
        version=raw["version"],
    )


def encode_overlay(overlay: AckOverlay) -> bytes:
    """Encode an overlay without its mark-delete position."""
    return json.dumps(
        {
            "through": list(overlay.through),
            "chunks": [_chunk_to_json(chunk) for chunk in overlay.chunks],
            "passed": [_chunk_to_json(chunk) for chunk in overlay.passed],
        }
    ).encode()


def decode_overlay(data: bytes, *, mark_delete: Position) -> AckOverlay:
    """Decode bytes from `encode_overlay`. `mark_delete` is not in the bytes."""
    raw = json.loads(data)
    return AckOverlay(
        mark_delete=mark_delete,
        through=Position(*raw["through"]),
        chunks=tuple(_chunk_from_json(chunk) for chunk in raw["chunks"]),
        passed=tuple(_chunk_from_json(chunk) for chunk in raw.get("passed", ())),
    )


def _chunk_to_json(chunk: AckChunk) -> list[object]:
    return [
        chunk.ledger_id,
        chunk.chunk,
        base64.b64encode(chunk.bits).decode(),
        base64.b64encode(encode_ack_sets(chunk.ack_sets)).decode(),
    ]


def _chunk_from_json(raw: list[object]) -> AckChunk:
    ledger_id, chunk, bits, ack_sets = raw
    return AckChunk(
        ledger_id=int(str(ledger_id)),
        chunk=int(str(chunk)),
        bits=base64.b64decode(str(bits)),
        ack_sets=decode_ack_sets(base64.b64decode(str(ack_sets))),
    )
