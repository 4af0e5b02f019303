"""Rows can rot: what is read from PostgreSQL is verified once, before anybody is sent it.

What comes from the tail cache was verified when its producer sent it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.entry import FLAG_CORRUPT
from vela.wire.entry import checksum_ok
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import MetadataCorrupt

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["verified"]


def verified(entries: list[StoredEntry]) -> list[StoredEntry]:
    """The same entries; those whose checksum or metadata is wrong carry FLAG_CORRUPT."""
    damaged = [at for at, entry in enumerate(entries) if not _is_sound(entry.data)]
    for at in damaged:
        entries[at] = entries[at]._replace(flags=entries[at].flags | FLAG_CORRUPT)
    return entries


def _is_sound(data: bytes) -> bool:
    """Metadata under a right checksum was parsed at append; only rows that the broker did not write fail there."""
    if not checksum_ok(data):
        return False
    try:
        parse_metadata(data)
    except MetadataCorrupt:
        return False
    return True
