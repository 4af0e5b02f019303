"""Read an export's files without Spark, so that Spark does not check its own work."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.checksum import Checksum, message_digest
from pipeline.jobs.files import data_files

__all__ = ["checksum_of_files"]

_NOTHING = "\\N"


def checksum_of_files(folder: Path, format_: str) -> Checksum:
    """Return the checksum of the messages in an export's files. The messages must have no event time."""
    rows = {"parquet": _parquet, "ndjson": _ndjson, "csv": _csv}[format_]
    return Checksum.of_digests(
        message_digest(value, key, properties, 0)
        for file in data_files(folder, format_)
        for value, key, properties in rows(file)
    )


def _parquet(file: Path) -> Iterator[tuple[bytes | None, bytes | None, dict[str, str]]]:
    for row in pq.read_table(file, columns=["value", "__key", "__messageProperties"]).to_pylist():
        yield row["value"], row["__key"], dict(row["__messageProperties"])


def _ndjson(file: Path) -> Iterator[tuple[bytes | None, bytes | None, dict[str, str]]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield _bytes(row, "value"), _bytes(row, "key"), row.get("properties", {})


def _csv(file: Path) -> Iterator[tuple[bytes | None, bytes | None, dict[str, str]]]:
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            given = {name: text for name, text in row.items() if text != _NOTHING}
            yield _bytes(given, "value"), _bytes(given, "key"), json.loads(given.get("properties", "{}"))


def _bytes(row: Mapping[str, str], name: str) -> bytes | None:
    if name in row:
        return row[name].encode()
    return base64.b64decode(row[f"{name}Base64"]) if f"{name}Base64" in row else None
