"""The requests that producers pass to the log, and the receipts that producers get."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Receipt", "SendRequest"]


class SendRequest(NamedTuple):
    """One entry to append. `data` begins with the checksum magic and a correct CRC."""

    sequence_id: int
    highest_sequence_id: int  # The client's number, or 0 if it is missing or below `sequence_id`
    messages: int  # From the entry's metadata, not from the SEND command
    flags: int
    deliver_at_ms: int  # 0 means at once
    key_hash: int | None  # Hash slot of the ordering key, or of the key if the entry has no ordering key
    data: bytes
    outbox_id: int = 0  # Id of the outbox row that the append deletes, or 0


class Receipt(NamedTuple):
    """The answer to a send. Each producer gets its receipts in the order of its sends."""

    sequence_id: int
    highest_sequence_id: int
    ledger_id: int
    entry_id: int
    size_bytes: int
