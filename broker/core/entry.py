"""One entry of a topic in memory."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "FLAG_BATCH",
    "FLAG_CHUNK",
    "FLAG_CORRUPT",
    "FLAG_DELAYED",
    "FLAG_LAST_CHUNK",
    "FLAG_MARKER",
    "FLAG_ORDERING_KEY",
    "StoredEntry",
]

# The flags are stored with the entry, so that dispatch need not parse the metadata again.
FLAG_BATCH = 1  # The payload is framed as a batch, perhaps of one message
FLAG_MARKER = 2  # A control entry of a Pulsar cluster, which consumers never get
FLAG_CHUNK = 4
FLAG_LAST_CHUNK = 8
FLAG_DELAYED = 16  # The entry was not yet due when it was appended
FLAG_ORDERING_KEY = 32  # `key_hash` is that of the ordering key, so a search by key must ignore `key_hash`
# This flag is never stored. It means that the checksum or the metadata is wrong.
FLAG_CORRUPT = 1 << 14


class StoredEntry(NamedTuple):
    """One entry. `data` is in Pulsar's wire format and begins with the magic number of the checksum.

    A named tuple takes 0.3 µs to build, and a frozen dataclass 2 µs.
    """

    ledger_id: int
    entry_id: int
    messages: int  # 1 if the entry is not a batch
    flags: int
    key_hash: int | None  # Hash slot of the ordering key, or else of the key; None = no key
    deliver_at_ms: int  # Unix time; 0 = no delay
    append_ms: int  # Unix time; never decreases within a persistent topic
    cumulative_messages: int  # Messages of the topic up to and including this entry
    cumulative_bytes: int
    data: bytes

    @property
    def is_batch(self) -> bool:
        """Whether the payload is framed as a batch."""
        return bool(self.flags & FLAG_BATCH)
