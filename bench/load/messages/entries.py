"""Entries as Apache's C++ client makes them, built before a run begins."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

__all__ = ["BATCH_BYTES", "BATCH_MESSAGES", "Entry", "batch", "single"]

BATCH_MESSAGES = 1000  # the C++ client's defaults: whichever comes first
BATCH_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry's bytes, and how many messages they contain."""

    data: bytes
    messages: int


def batch(payload_bytes: int) -> Entry:
    """Return a full batch of random payloads."""
    messages = max(1, min(BATCH_MESSAGES, BATCH_BYTES // payload_bytes))
    members = [OutgoingMessage(payload=os.urandom(payload_bytes)) for _ in range(messages)]
    data = encode_batch(members, producer_name="bench", sequence_id=0, publish_time_ms=_now_ms())
    return Entry(data=data, messages=messages)


def single(payload: bytes, sequence_id: int = 0) -> Entry:
    """Return the entry of a message that is sent alone."""
    data = encode_single(
        producer_name="bench", sequence_id=sequence_id, publish_time_ms=_now_ms(), payload=payload
    )
    return Entry(data=data, messages=1)


def _now_ms() -> int:
    return int(time.time() * 1000)
