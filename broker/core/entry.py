"""One entry of a topic, as the broker keeps it in memory.

It is a named tuple because the hot path builds one for each entry: a frozen dataclass costs 2 µs, a named tuple 0.3 µs.
"""

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

# Facts about an entry, stored in its row so that dispatch need not parse the metadata again.
FLAG_BATCH = 1  # the payload is framed as a batch, perhaps of one message
FLAG_MARKER = 2  # an entry for brokers of a Pulsar cluster; consumers do not get it
FLAG_CHUNK = 4  # one part of a large message; the metadata says which one
FLAG_LAST_CHUNK = 8  # the last part of a large message
FLAG_DELAYED = 16  # its delivery time lay in the future when it was appended
FLAG_ORDERING_KEY = 32  # `key_hash` comes from the ordering key, so a search by key must not use it
# Never stored: set when the entry is read.
FLAG_CORRUPT = 1 << 14  # its checksum or its metadata is wrong


class StoredEntry(NamedTuple):
    """One entry. `data` is in Pulsar's wire format and begins with the checksum magic."""

    ledger_id: int
    entry_id: int
    messages: int  # messages inside, 1 when it is not a batch
    flags: int  # FLAG_BATCH | FLAG_MARKER | …
    key_hash: int | None  # hash slot of the ordering key, else of the key; None if the entry has neither
    deliver_at_ms: int  # Unix time; 0 = no delay
    append_ms: int  # Unix time of the append; never decreases within a persistent topic
    cumulative_messages: int  # of the topic, up to and including this entry
    cumulative_bytes: int  # of the topic, up to and including this entry
    data: bytes

    @property
    def is_batch(self) -> bool:
        """Whether the payload is framed as a batch."""
        return bool(self.flags & FLAG_BATCH)
