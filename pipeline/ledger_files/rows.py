"""The contents of a ledger file: rows of entries, and a manifest."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from pipeline.errors import LedgerFileDamaged

__all__ = ["FORMAT_VERSION", "MANIFEST_KEY", "EntryRow", "Manifest"]

FORMAT_VERSION: Final = 1
MANIFEST_KEY: Final = b"vela.ledger"  # of the manifest among the metadata of a file's footer


class EntryRow(NamedTuple):
    """One entry, in the order of the broker's columns."""

    entry_id: int
    messages: int
    flags: int
    key_hash: int | None
    deliver_at_ms: int
    append_ms: int
    cumulative_messages: int  # of the topic, this entry included
    cumulative_bytes: int  # of the topic, this entry included
    data: bytes  # empty if only the other columns were read


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of a ledger file in its own footer."""

    format_version: int
    topic_id: int
    ledger_id: int
    entries: int
    messages: int
    size_bytes: int  # of the entries' data, uncompressed
    checksum: str  # SHA-256 over all columns

    def to_json(self) -> str:
        """Return the manifest as text for the file's footer."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: bytes, name: str) -> Manifest:
        """Read the manifest of the file `name`. Raises LedgerFileDamaged if it is unreadable or of another format."""
        try:
            found = cls(**json.loads(text))
        except (ValueError, TypeError):
            raise LedgerFileDamaged(f"ledger file {name} has no manifest of Vela") from None
        if found.format_version != FORMAT_VERSION:
            raise LedgerFileDamaged(
                f"ledger file {name} has format {found.format_version}, and this version of Vela reads"
                f" {FORMAT_VERSION}: update Vela"
            )
        return found
