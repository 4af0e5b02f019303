"""Analyse a backlog by reading a bounded number of its entries."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from console.messages.entries import StoredEntry, Trouble, open_entry, unacked_members
from console.queries.cursor import acked_beyond
from console.queries.database import fetch_entries
from console.queries.subscription import SubscriptionHead
from console.queries.topics.log import Log, Place, by_place, log_of

__all__ = ["ANALYSED_ENTRIES", "ANALYSED_S", "BacklogAnalysis", "KeyCount", "analyse"]

ANALYSED_ENTRIES = 10_000
ANALYSED_S = 120.0
KEYS_SHOWN = 20
_PIECE_ENTRIES = 100
_MOST_BYTES = 256 * 1024
# `Trouble.CHUNK` is not listed, because nothing is wrong with a chunk.
_TROUBLES = {Trouble.TOO_LARGE: "too_large", Trouble.ENCRYPTED: "encrypted", Trouble.CORRUPT: "corrupt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """One key and the number of its messages."""

    key: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogAnalysis:
    """Counts for the entries that were read. Acked messages are included only in `bytes`.

    Payloads, properties and keys are counted only in entries that could be decoded.
    """

    entries: int = 0
    messages: int = 0
    bytes: int = 0  # Size of whole entries
    payload_bytes: int = 0
    properties_bytes: int = 0
    batches: int = 0
    partly_acked: int = 0
    delayed: int = 0  # Messages whose delivery time is in the future
    encrypted: int = 0
    corrupt: int = 0
    too_large: int = 0  # Entries above 256 KiB, or above 2 MiB when decompressed
    without_key: int = 0
    keys: tuple[KeyCount, ...] = ()
    oldest_append_ms: int = 0
    newest_append_ms: int = 0
    is_whole: bool = True
    # "time" or "entries" if that limit was reached, "holes" if `acked_beyond` did not read all acks, otherwise "".
    stopped_by: str = ""


@dataclass(slots=True, kw_only=True)
class _Tally:
    now_ms: int
    counts: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    oldest_ms: int = 0
    newest_ms: int = 0

    def add(self, entry: StoredEntry, unacked: int | None) -> None:
        """Count an entry. The bitset `unacked` is None if no message is acked."""
        counts = self.counts
        left = entry.messages if unacked is None else unacked.bit_count()
        counts["entries"] += 1
        counts["messages"] += left
        counts["bytes"] += entry.size_bytes
        counts["partly_acked"] += unacked is not None
        if entry.deliver_at_ms > self.now_ms:
            counts["delayed"] += left
        self.oldest_ms = min(self.oldest_ms or entry.append_ms, entry.append_ms)
        self.newest_ms = max(self.newest_ms, entry.append_ms)
        opened = open_entry(entry, most_bytes=_MOST_BYTES, most_unpacked_bytes=8 * _MOST_BYTES)
        if opened.trouble is not None and (counted := _TROUBLES.get(opened.trouble)):
            counts[counted] += 1
        counts["batches"] += any(message.batch_index >= 0 for message in opened.messages)
        for message in unacked_members(opened, unacked):
            counts["payload_bytes"] += len(message.payload)
            counts["properties_bytes"] += sum(
                len(name.encode()) + len(value.encode()) for name, value in message.properties.items()
            )
            if message.key is None:
                counts["without_key"] += 1
            else:
                self.keys[message.key] += 1


def analyse(head: SubscriptionHead, *, entries: int, seconds: float) -> BacklogAnalysis:
    """Analyse the first unacked entries. No query starts after the time limit."""
    until_s = time.monotonic() + seconds
    log = log_of(head.topic_id)
    mark_delete = log.index_of(head.mark_delete_ledger, head.mark_delete_entry)
    acked = acked_beyond(head.id, log, mark_delete)
    indexes = acked.next_unacked(mark_delete + 1, log.end)
    tally = _Tally(now_ms=time.time_ns() // 1_000_000)
    stopped_by = ""
    left = entries
    while left:
        if time.monotonic() > until_s:
            stopped_by = "time"
            break
        piece = list(islice(indexes, min(left, _PIECE_ENTRIES)))
        if not piece:
            break
        left -= len(piece)
        for entry in _read(log, piece):
            tally.add(entry, acked.ack_sets.get(log.index_of(entry.ledger_id, entry.entry_id)))
    else:
        stopped_by = "entries" if next(indexes, None) is not None else ""
    if not stopped_by and not acked.complete:
        stopped_by = "holes"
    return BacklogAnalysis(
        **tally.counts,
        keys=tuple(
            KeyCount(key=key, messages=messages) for key, messages in tally.keys.most_common(KEYS_SHOWN)
        ),
        oldest_append_ms=tally.oldest_ms,
        newest_append_ms=tally.newest_ms,
        is_whole=not stopped_by,
        stopped_by=stopped_by,
    )


def _read(log: Log, indexes: list[int]) -> Iterator[StoredEntry]:
    places: list[Place] = [place for index in indexes if (place := log.place_at(index)) is not None]
    found = fetch_entries(
        StoredEntry, "peek", log.stores_of(places), {**by_place(places), "most_bytes": _MOST_BYTES}
    )
    return iter(sorted(found, key=lambda entry: entry.place))
