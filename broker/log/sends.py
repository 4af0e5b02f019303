"""What a producer hands to the log, and what it gets back once the entry is durable.

Both are named tuples: one of each is made per entry on the hot path (see broker/core/entry.py).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Receipt", "SendRequest"]


class SendRequest(NamedTuple):
    """One entry to append. `data` begins with the checksum magic and its CRC has been checked by the transport."""

    sequence_id: int
    highest_sequence_id: int  # 0 = not given
    messages: int  # from the entry's metadata, not from the command
    flags: int  # broker.core.entry.FLAG_BATCH | …
    deliver_at_ms: int  # 0 = at once
    key_hash: int | None  # Murmur3 slot of the sticky key, None when the entry has no key
    data: bytes
    outbox_id: int = 0  # the row of the outbox it comes from, which goes in the same statement; 0 = none


class Receipt(NamedTuple):
    """A send that is durable. Receipts of one producer come in the order of its sends."""

    sequence_id: int
    highest_sequence_id: int  # as the client sent it, 0 if it did not
    ledger_id: int
    entry_id: int
    size_bytes: int  # what the transport may now subtract from its pending bytes
