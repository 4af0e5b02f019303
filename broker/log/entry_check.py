"""Verify entries that were read from PostgreSQL or from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.entry import FLAG_CORRUPT
from vela.wire.entry import checksum_ok, plain_head
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import MetadataCorrupt

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["verified"]


def verified(entries: list[StoredEntry]) -> list[StoredEntry]:
    """Set FLAG_CORRUPT on entries with a wrong checksum or damaged metadata. Changes the list and returns it."""
    damaged = [at for at, entry in enumerate(entries) if not _is_sound(entry.data)]
    for at in damaged:
        entries[at] = entries[at]._replace(flags=entries[at].flags | FLAG_CORRUPT)
    return entries


def _is_sound(data: bytes) -> bool:
    if not checksum_ok(data):
        return False
    if plain_head(data) is not None:
        return True
    try:
        parse_metadata(data)
    except MetadataCorrupt:
        return False
    return True
