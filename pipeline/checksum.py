"""A checksum over messages that does not depend on their order, to compare a copy with its source."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pipeline.message_columns import event_time_ms, properties_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Checksum", "checksum_of_frame", "message_digest"]

_HEAD: Final = struct.Struct(">qqqq")
_SIZES: Final = struct.Struct(">qq")
_MODULUS: Final = 1 << 64


def message_digest(
    value: bytes | None, key: bytes | None, properties: Mapping[str, str], event_time_ms: int
) -> int:
    """Return 64 bits of BLAKE2b over the parts of a message that applications see; `event_time_ms` 0 = none.

    The size of each part comes before it, so that two different messages never give the same input.
    """
    sizes = [-1 if part is None else len(part) for part in (value, key)]
    parts = [_HEAD.pack(*sizes, event_time_ms, len(properties)), value or b"", key or b""]
    for name, text in sorted(properties.items()):
        name_bytes, text_bytes = name.encode(), text.encode()
        parts += (_SIZES.pack(len(name_bytes), len(text_bytes)), name_bytes, text_bytes)
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """A number of messages and the sum of their digests. Unlike XOR, a sum detects a message that occurs twice."""

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
        """Return the checksum of messages, given their `message_digest`s."""
        listed = list(digests)
        return cls(messages=len(listed), digest=sum(listed) % _MODULUS)


def checksum_of_frame(frame: DataFrame) -> Checksum:
    """Return the checksum of a DataFrame with the data source's columns. Runs a Spark job."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.functions import arrow_udf

    # An Arrow UDF, because mapInArrow would need pandas without using it.
    # The type hints give the UDF's kind. PySpark warns if the kind is also an argument, though its stubs require the
    # argument.
    of_rows = arrow_udf(_digests, "BIGINT")  # type: ignore[call-overload]
    digest = of_rows("value", "__key", "__messageProperties", "__eventTime")
    # Spark has no sum modulo 2**64. The sums of the two halves stay below 2**63 for up to two billion messages.
    row = (
        frame.select(digest.alias("digest"))
        .agg(
            sf.count("*"),
            sf.sum(sf.shiftrightunsigned("digest", 32)),
            sf.sum(sf.col("digest").bitwiseAND(0xFFFF_FFFF)),
        )
        .collect()[0]
    )
    return Checksum(messages=row[0], digest=(((row[1] or 0) << 32) + (row[2] or 0)) % _MODULUS)


def _digests(values: pa.Array, keys: pa.Array, properties: pa.Array, times: pa.Array) -> pa.Array:
    """Return the `message_digest` of each row, as a signed number."""
    rows = zip(
        values.to_pylist(),
        keys.to_pylist(),
        properties.to_pylist(),
        times.cast(pa.int64()).to_pylist(),  # microseconds
        strict=True,
    )
    digests = [
        message_digest(value, key, properties_of(pairs), event_time_ms(time_us or 0))
        for value, key, pairs, time_us in rows
    ]
    return pa.array([digest - ((digest >> 63) << 64) for digest in digests], type=pa.int64())
