"""The requests that producers pass to the log, and the receipts that they get.

Both are named tuples, because the hot path builds one of each per entry (see broker/core/entry.py).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Receipt", "SendRequest"]


class SendRequest(NamedTuple):
    """One entry to append. `data` begins with the checksum magic and a correct CRC."""

    sequence_id: int
    highest_sequence_id: int  # 0 = not given, or below `sequence_id`
    messages: int  # from the entry's metadata, not from the command
    flags: int  # broker.core.entry.FLAG_BATCH | …
    deliver_at_ms: int  # 0 = at once
    key_hash: int | None  # hash slot of the ordering key, else of the key; None if the entry has neither
    data: bytes
    outbox_id: int = 0  # the outbox row that the append's statement deletes; 0 = none


class Receipt(NamedTuple):
    """The receipt of a send whose entry is durable, or was delivered or dropped by a non-persistent topic.

    Receipts of one producer come in the order of its sends.
    """

    sequence_id: int
    highest_sequence_id: int  # as in the request
    ledger_id: int
    entry_id: int
    size_bytes: int  # of the entry's data
