"""Write a ledger into a file, and check a file as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from pipeline.errors import EntriesMissing, LedgerFileDamaged, counted
from pipeline.ledger_files.columns import SCHEMA, ColumnsChecksum, batch_of
from pipeline.ledger_files.rows import FORMAT_VERSION, MANIFEST_KEY, EntryRow, Manifest

if TYPE_CHECKING:
    from pipeline.ledger_files.storage import FileStorage

__all__ = ["verify", "write_ledger"]

# A reader needs memory for one row group at a time. An entry larger than GROUP_BYTES is a group of its own.
GROUP_BYTES: Final = 1 << 20
GROUP_ENTRIES: Final = 4096


def write_ledger(
    storage: FileStorage,
    name: str,
    entries: Iterable[EntryRow],
    *,
    topic_id: int,
    ledger_id: int,
) -> Manifest:
    """Write all entries of a ledger, in order from entry 0. The file is durable when this returns.

    Raises EntriesMissing if the ids of `entries` do not begin at 0 or have a gap, and OffloadUnavailable. The caller
    checks that the last entry came, for example by the counts in the manifest.
    """
    checksum = ColumnsChecksum()
    count = messages = size_bytes = 0
    with (
        storage.writing(name) as stream,
        pq.ParquetWriter(stream, SCHEMA, compression="zstd", write_page_checksum=True) as writer,
    ):
        for group in _groups(entries):
            for entry_id, row in enumerate(group, count):
                if row.entry_id != entry_id:
                    raise EntriesMissing(
                        f"entry {ledger_id}:{entry_id} is missing, so the ledger stays where it is"
                    )
            batch = batch_of(group)
            checksum.add(batch)
            writer.write_batch(batch, row_group_size=len(group))
            count += len(group)
            messages += sum(row.messages for row in group)
            size_bytes += sum(len(row.data) for row in group)
        manifest = Manifest(
            format_version=FORMAT_VERSION,
            topic_id=topic_id,
            ledger_id=ledger_id,
            entries=count,
            messages=messages,
            size_bytes=size_bytes,
            checksum=checksum.hexdigest(),
        )
        writer.add_key_value_metadata({MANIFEST_KEY: manifest.to_json().encode()})
    return manifest


def verify(storage: FileStorage, name: str) -> Manifest:
    """Read a whole file, one row group at a time, compare it with its manifest, and return the manifest.

    Raises LedgerFileDamaged, LedgerFileMissing and OffloadUnavailable.
    """
    checksum = ColumnsChecksum()
    count = 0
    with storage.reading(name) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
        manifest = Manifest.from_json((file.metadata.metadata or {}).get(MANIFEST_KEY, b""), name)
        if not file.schema_arrow.equals(SCHEMA):
            raise LedgerFileDamaged(f"ledger file {name} has other columns than a ledger")
        for number in range(file.num_row_groups):
            for batch in file.read_row_group(number, use_threads=False).to_batches():
                checksum.add(batch)
                count += len(batch)
    if (count, checksum.hexdigest()) != (manifest.entries, manifest.checksum):
        raise LedgerFileDamaged(
            f"ledger file {name} has {counted(count, 'entry', 'entries')} with checksum"
            f" {checksum.hexdigest()}, but was written with {manifest.entries} and {manifest.checksum}"
        )
    return manifest


def _groups(entries: Iterable[EntryRow]) -> Iterable[Sequence[EntryRow]]:
    group: list[EntryRow] = []
    size_bytes = 0
    for entry in entries:
        if group and (size_bytes + len(entry.data) > GROUP_BYTES or len(group) == GROUP_ENTRIES):
            yield group
            group, size_bytes = [], 0
        group.append(entry)
        size_bytes += len(entry.data)
    if group:
        yield group
