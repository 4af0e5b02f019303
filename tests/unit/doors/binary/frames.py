"""Entries and SEND frames for tests of a binary connection."""

from __future__ import annotations

from vela.wire.binary import commands
from vela.wire.entry import encode_single

NO_REQUEST = 2**64 - 1


def entry(sequence_id: int, payload: bytes = b"x", *, key: str | None = None) -> bytes:
    return encode_single(
        producer_name="p", sequence_id=sequence_id, publish_time_ms=1, payload=payload, key=key
    )


def send(sequence_id: int, data: bytes | None = None, *, producer_id: int = 1) -> bytes:
    return b"".join(commands.send(producer_id, sequence_id, entry(sequence_id) if data is None else data))
