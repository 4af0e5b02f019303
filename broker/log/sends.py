"""The requests that producers pass to the log, and the receipts that producers get."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Receipt", "SendRequest"]


class SendRequest(NamedTuple):
    """One entry to append. `data` begins with the checksum magic and a correct CRC."""

    sequence_id: int
    highest_sequence_id: int  # 0 if not given or below `sequence_id`
    messages: int  # Count in the entry's metadata, not in the command
    flags: int  # Bits of broker.core.entry.FLAG_*
    deliver_at_ms: int  # 0 means at once
    key_hash: int | None  # Hash slot of the ordering key or, without an ordering key, of the key
    data: bytes
    outbox_id: int = 0  # Outbox row that the append deletes, or 0


class Receipt(NamedTuple):
    """The receipt of a send. A persistent topic sends the receipt when the entry is durable.

    Receipts of one producer come in the order of its sends.
    """

    sequence_id: int
    highest_sequence_id: int
    ledger_id: int
    entry_id: int
    size_bytes: int
