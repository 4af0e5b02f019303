"""Convert stored entries for dispatchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.entry import FLAG_CHUNK, FLAG_LAST_CHUNK
from broker.core.hash_slots import slot_of_key
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from vela.wire.entry import parse_header

if TYPE_CHECKING:
    from broker.core.cursor.cursor import Cursor
    from broker.core.entry import StoredEntry

__all__ = ["FoundEntry", "read_entries", "whole_entries"]

_new: Final = tuple.__new__  # Faster than the named tuple's constructor


class FoundEntry(NamedTuple):
    """A stored entry in the form that dispatchers use."""

    position: Position
    messages_remaining: int
    chunk_uuid: str | None
    last_chunk: bool
    slot: int
    entry: StoredEntry


def read_entries(found: Sequence[StoredEntry], cursor: Cursor, type_: SubscriptionType) -> list[FoundEntry]:
    """Convert entries, and count only the unacked messages of each entry."""
    if not cursor.has_partial_acks:
        return whole_entries(found, type_)
    read: list[FoundEntry] = []
    for each in whole_entries(found, type_):
        remaining = cursor.remaining_of(each.position)
        read.append(each if remaining is None else each._replace(messages_remaining=remaining.bit_count()))
    return read


def whole_entries(found: Sequence[StoredEntry], type_: SubscriptionType) -> list[FoundEntry]:
    """Convert entries, and count all messages of each entry."""
    chunks = 0 if type_ is SubscriptionType.FAILOVER else FLAG_CHUNK
    return [
        _new(FoundEntry, (_new(Position, entry[:2]), entry.messages, None, False, entry.key_hash or 0, entry))
        if not entry.flags & chunks
        else _chunk(entry)
        for entry in found
    ]


def _chunk(entry: StoredEntry) -> FoundEntry:
    """Convert a chunk. All chunks of a message get the same hash slot, even if the message has no key."""
    uuid = parse_header(entry.data).chunk_uuid or ""
    return FoundEntry(
        Position(entry.ledger_id, entry.entry_id),
        entry.messages,
        uuid,
        bool(entry.flags & FLAG_LAST_CHUNK),
        entry.key_hash or slot_of_key(uuid.encode()),
        entry,
    )
