"""The state of a message on each subscription: acked, in flight, delayed or unacked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_noop

from console.queries.cursor import CHUNK_ENTRIES, members_of
from console.queries.database import fetch
from console.queries.topics.log import Place

__all__ = [
    "MOST_CURSORS",
    "CursorAt",
    "Delivery",
    "MessageState",
    "States",
    "cursors_of",
    "states_at",
    "subscription_names",
]

MOST_CURSORS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorAt:
    """The cursor of a subscription."""

    id: int
    topic_id: int
    name: str
    mark_delete_ledger: int
    mark_delete_entry: int
    delays: bool  # Whether the subscription holds delayed messages back until they are due


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A range of entries that one consumer has in flight.

    On Exclusive and Failover subscriptions, the range may include acked entries.
    """

    subscription_id: int
    consumer_name: str
    ledger_id: int
    first_entry: int
    last_entry: int
    delivered_ms: int
    redelivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageState:
    """The state of one message on one subscription."""

    word: str
    tone: str
    is_hole: bool = False  # Unacked, although a later entry is completely acked
    delivery: Delivery | None = None
    due_ms: int = 0  # 0 unless the message is delayed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    cursor_id: int
    ledger_id: int
    chunk: int
    bits: bytes
    ack_sets: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The stored states of some entries on some subscriptions."""

    # Each key names a cursor, a ledger and a chunk of entries. Each value holds a bitmap of the acked entries,
    # and a bitset of the unacked messages for each partly acked batch.
    chunks: Mapping[tuple[int, int, int], tuple[int, Mapping[int, int]]]
    last_acked: Mapping[int, Place]  # Last completely acked entry after mark-delete, by cursor id
    pending: Mapping[tuple[int, Place], Delivery]

    def of(
        self, cursor: CursorAt, place: Place, *, batch_index: int, deliver_at_ms: int, now_ms: int
    ) -> MessageState:
        """Return the state of one message of the entry at `place`."""
        if self._is_acked(cursor, place, batch_index):
            return MessageState(word=gettext_noop("acked"), tone="good")
        is_hole = place < self.last_acked.get(cursor.id, (0, 0))
        delivery = self.pending.get((cursor.id, place))
        if delivery is not None:
            return MessageState(
                word=gettext_noop("in flight"), tone="calm", is_hole=is_hole, delivery=delivery
            )
        if deliver_at_ms > now_ms and cursor.delays:
            return MessageState(
                word=gettext_noop("delayed"), tone="calm", is_hole=is_hole, due_ms=deliver_at_ms
            )
        return MessageState(word=gettext_noop("unacked"), tone="warn" if is_hole else "calm", is_hole=is_hole)

    def _is_acked(self, cursor: CursorAt, place: Place, batch_index: int) -> bool:
        if place <= (cursor.mark_delete_ledger, cursor.mark_delete_entry):
            return True
        ledger_id, entry_id = place
        chunk, bit = divmod(entry_id, CHUNK_ENTRIES)
        bits, ack_sets = self.chunks.get((cursor.id, ledger_id, chunk), (0, {}))
        if bits >> bit & 1:
            return True
        unacked = ack_sets.get(entry_id)
        return unacked is not None and batch_index >= 0 and not unacked >> batch_index & 1


def cursors_of(topic_ids: Collection[int], name: str | None = None) -> list[CursorAt]:
    """Return the cursors of some topics, sorted by name.

    Returns at most MOST_CURSORS + 1 cursors, so that the caller can see whether there are too many.
    """
    return fetch(
        CursorAt,
        "subscription",
        "cursors",
        {"topics": list(topic_ids), "name": name, "limit": MOST_CURSORS + 1},
    )


def subscription_names(topic_id: int) -> list[str]:
    """Return at most 500 subscription names of a topic or its partitions."""
    return [
        row.name
        for row in fetch(_Name, "subscription", "names", {"topic_id": topic_id, "limit": MOST_CURSORS})
    ]


def states_at(cursors: Sequence[CursorAt], places: Collection[Place]) -> States:
    """Read the states of the entries at `places` on these cursors."""
    if not cursors or not places:
        return States(chunks={}, last_acked={}, pending={})
    ids = [cursor.id for cursor in cursors]
    wanted = sorted({(ledger_id, entry_id // CHUNK_ENTRIES) for ledger_id, entry_id in places})
    chunks = fetch(
        _Chunk,
        "subscription",
        "chunks_at",
        {"cursors": ids, "ledgers": [each[0] for each in wanted], "chunks": [each[1] for each in wanted]},
    )
    last = fetch(_Chunk, "subscription", "last_chunks", {"cursors": ids})
    asked = sorted(set(places))
    pending = fetch(
        Delivery,
        "subscription",
        "pending_at",
        {
            "subscriptions": ids,
            "ledgers": [ledger_id for ledger_id, _ in asked],
            "entries": [entry_id for _, entry_id in asked],
        },
    )
    return States(
        chunks={
            (chunk.cursor_id, chunk.ledger_id, chunk.chunk): (
                int.from_bytes(bytes(chunk.bits), "little"),
                members_of(bytes(chunk.ack_sets)),
            )
            for chunk in chunks
        },
        last_acked={chunk.cursor_id: place for chunk in last if (place := _last_bit(chunk)) is not None},
        pending={
            (row.subscription_id, (row.ledger_id, entry_id)): row
            for row in pending
            for ledger_id, entry_id in asked
            if ledger_id == row.ledger_id and row.first_entry <= entry_id <= row.last_entry
        },
    )


def _last_bit(chunk: _Chunk) -> Place | None:
    bits = int.from_bytes(bytes(chunk.bits), "little")
    if not bits:
        return None
    return (chunk.ledger_id, chunk.chunk * CHUNK_ENTRIES + bits.bit_length() - 1)
