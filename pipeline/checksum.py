"""A checksum over messages that does not depend on their order, for comparing what went in with what came out."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Checksum", "checksum_of_frame", "message_digest"]

_HEAD: Final = struct.Struct(">qqqq")
_SIZES: Final = struct.Struct(">qq")
_MODULUS: Final = 1 << 64


def message_digest(value: bytes, key: bytes | None, properties: Mapping[str, str], event_time_ms: int) -> int:
    """64 bits of BLAKE2b over what the application sees of one message; `event_time_ms` 0 = none.

    Every part is preceded by its size, so that no two different messages read the same.
    """
    parts = [_HEAD.pack(len(value), -1 if key is None else len(key), event_time_ms, len(properties))]
    parts += (value, key or b"")
    for name, text in sorted(properties.items()):
        name_bytes, text_bytes = name.encode(), text.encode()
        parts += (_SIZES.pack(len(name_bytes), len(text_bytes)), name_bytes, text_bytes)
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """A number of messages and the sum of their digests. A sum, unlike XOR, sees a message that is there twice."""

    messages: int = 0
    digest: int = 0  # sum of message digests, modulo 2**64

    def __add__(self, other: Checksum) -> Checksum:
        return Checksum(
            messages=self.messages + other.messages, digest=(self.digest + other.digest) % _MODULUS
        )

    def __str__(self) -> str:
        return f"{self.digest:016x}"

    @classmethod
    def of_digests(cls, digests: Iterable[int]) -> Checksum:
        """Of messages given by their `message_digest`."""
        listed = list(digests)
        return cls(messages=len(listed), digest=sum(listed) % _MODULUS)


def checksum_of_frame(frame: DataFrame) -> Checksum:
    """Of a DataFrame with the data source's columns, however it was stored since. Runs a Spark job."""
    columns = frame.select("value", "__key", "__messageProperties", "__eventTime")
    rows = columns.mapInArrow(_sums, "messages BIGINT, digest BINARY").collect()
    return sum(
        (Checksum(messages=row.messages, digest=int.from_bytes(row.digest, "big")) for row in rows),
        Checksum(),
    )


def _sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row a partition."""
    import pyarrow as pa

    total = Checksum()
    for batch in batches:
        values, keys, properties = (batch.column(index).to_pylist() for index in range(3))
        times_us = batch.column(3).cast(pa.int64()).to_pylist()
        total += Checksum.of_digests(
            message_digest(value, key, dict(pairs), (time_us or 0) // 1000)
            for value, key, pairs, time_us in zip(values, keys, properties, times_us, strict=True)
        )
    yield pa.RecordBatch.from_pydict(
        {"messages": [total.messages], "digest": [total.digest.to_bytes(8, "big")]}
    )
