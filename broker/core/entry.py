"""The in-memory form of an entry."""

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

# All flags except FLAG_CORRUPT are stored with the entry.
FLAG_BATCH = 1  # The payload is framed as a batch of one or more messages
FLAG_MARKER = 2  # A Pulsar control entry that consumers never get
FLAG_CHUNK = 4
FLAG_LAST_CHUNK = 8
FLAG_DELAYED = 16  # The delivery time was in the future when the entry was appended
FLAG_ORDERING_KEY = 32  # `key_hash` comes from the ordering key, not from the key
FLAG_CORRUPT = 1 << 14  # The checksum or the metadata is wrong


class StoredEntry(NamedTuple):
    """One entry.

    This is a named tuple because building a frozen dataclass takes 2 µs instead of 0.3 µs.
    """

    ledger_id: int
    entry_id: int
    messages: int  # 1 if the entry is not a batch
    flags: int
    key_hash: int | None  # None if the entry has neither an ordering key nor a key
    deliver_at_ms: int  # Unix time; 0 means no delay
    append_ms: int  # Unix time; never decreases within a persistent topic
    cumulative_messages: int  # Messages of the topic up to and including this entry
    cumulative_bytes: int
    data: bytes  # In Pulsar's wire format, starting with the magic number of the checksum

    @property
    def is_batch(self) -> bool:
        """Whether the payload is framed as a batch."""
        return bool(self.flags & FLAG_BATCH)
