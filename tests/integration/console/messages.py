"""A topic whose log has every kind of entry, written straight into the tables."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from broker.models import Ledger, Segment, Topic
from broker.storage.log.pieces import divided
from tests.integration.console.shop import make_topic
from vela.wire.entry import parse_header
from vela.wire.errors import EntryCorrupt
from vela.wire.key_hash import murmur3_32

__all__ = ["Written", "append", "hash_of", "write_log"]

FLAG_BATCH, FLAG_ORDERING_KEY = 1, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The topic and its ledgers."""

    topic: Topic
    ledgers: tuple[Ledger, ...]

    def spot(self, number: int) -> str:
        """Return the position of the entry with this number, counted from 0 over all ledgers."""
        for ledger in self.ledgers:
            if number < ledger.entries_before + ledger.entries:
                return f"{ledger.pk}:{number - ledger.entries_before}"
        raise IndexError(number)


def hash_of(data: bytes) -> tuple[int | None, int]:
    """Return the key hash and the flags that the broker stores with an entry."""
    try:
        header = parse_header(data)
    except EntryCorrupt:
        return None, 0
    flags = FLAG_BATCH if header.is_batch else 0
    if header.ordering_key is not None:
        return murmur3_32(header.ordering_key) % 65_536 or 1, flags | FLAG_ORDERING_KEY
    if header.partition_key is None:
        return None, flags
    key = header.partition_key.encode()
    return murmur3_32(base64.b64decode(key) if header.partition_key_b64 else key) % 65_536 or 1, flags


def write_log(
    name: str,
    entries: Iterable[bytes],
    *,
    begin_ms: int = 1_700_000_000_000,
    step_ms: int = 1000,
    ledger_entries: int = 1_000_000,
    parent: Topic | None = None,
    deliver_at_ms: int = 0,
) -> Written:
    """Store entries, each `step_ms` after the one before. All ledgers but the last are sealed."""
    topic = make_topic(name, parent=parent)
    segment, _ = Segment.objects.get_or_create(pk=1, defaults={"opened_ms": begin_ms})
    made = list(entries)
    pieces = [made[at : at + ledger_entries] for at in range(0, len(made), ledger_entries)]
    ledgers: list[Ledger] = []
    messages = size_bytes = count = 0
    for number, piece in enumerate(pieces):
        before = (count, messages, size_bytes)
        ledger = Ledger.objects.create(
            topic=topic,
            segment=segment,
            opened_ms=begin_ms,
            entries_before=before[0],
            messages_before=before[1],
            bytes_before=before[2],
        )
        for entry_id, data in enumerate(piece):
            messages, size_bytes = messages + _messages_of(data), size_bytes + len(data)
            append_ms = begin_ms + (count + entry_id) * step_ms
            _insert(ledger, entry_id, data, messages, size_bytes, append_ms, deliver_at_ms)
        ledger.entries = len(piece)
        count += len(piece)
        if number < len(pieces) - 1:
            ledger.state = Ledger.State.SEALED
            ledger.messages, ledger.size_bytes = messages - before[1], size_bytes - before[2]
            ledger.first_append_ms = begin_ms + before[0] * step_ms
            ledger.last_append_ms = begin_ms + (count - 1) * step_ms
            ledger.save()
        ledgers.append(ledger)
    return Written(topic=topic, ledgers=tuple(ledgers))


def append(ledger: Ledger, entries: Iterable[bytes]) -> None:
    """Store more entries in an open ledger, as the topic's owner does."""
    for data in entries:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT entry_id, cumulative_messages, cumulative_bytes, append_ms FROM vela_entry"
                " WHERE ledger_id = %s ORDER BY entry_id DESC LIMIT 1",
                [ledger.pk],
            )
            last = cursor.fetchone() or (-1, ledger.messages_before, ledger.bytes_before, ledger.opened_ms)
        entry_id, messages, size_bytes, append_ms = last
        _insert(
            ledger,
            entry_id + 1,
            data,
            messages + _messages_of(data),
            size_bytes + len(data),
            append_ms + 1000,
            0,
        )


def _insert(
    ledger: Ledger,
    entry_id: int,
    data: bytes,
    messages: int,
    size_bytes: int,
    append_ms: int,
    deliver_at_ms: int,
) -> None:
    """Store an entry. `messages` and `size_bytes` are the topic's sums with this entry."""
    key_hash, flags = hash_of(data)
    first, rest = divided(data)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO vela_entry_{ledger.segment_id}_rest (ledger_id, entry_id, piece, data)"
            " VALUES (%s, %s, %s, %s)",
            [(ledger.pk, entry_id, number, bytes(piece)) for number, piece in enumerate(rest)],
        )
        cursor.execute(
            f"INSERT INTO vela_entry_{ledger.segment_id} (ledger_id, entry_id, messages, flags, key_hash, append_ms,"
            " deliver_at_ms, cumulative_messages, cumulative_bytes, rest_bytes, data)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                ledger.pk,
                entry_id,
                _messages_of(data),
                flags,
                key_hash,
                append_ms,
                deliver_at_ms,
                messages,
                size_bytes,
                len(data) - len(first),
                bytes(first),
            ],
        )


def _messages_of(data: bytes) -> int:
    try:
        return parse_header(data).messages
    except EntryCorrupt:
        return 1
