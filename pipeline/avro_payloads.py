"""Decode Avro payloads into JSON, each with the version of the schema with which it was written.

An Avro payload has no names in it. If it is read with another version, it can give wrong values without an error.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from vela.schema.avro_schema import named_like

__all__ = ["as_json", "decoder"]


def decoder(
    reader: str, *, version: int, writers: Mapping[int, str]
) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Return a function that takes a column of payloads and the column of their schema versions. Executors run it.

    It returns the payloads as JSON with the fields of `reader`. `writers` has the Avro schema of each version, as JSON
    like `reader`. A payload whose version is null is read with the schema of `version`.
    """
    of_versions = dict(writers)

    def decode(payloads: pa.Array, versions: pa.Array) -> pa.Array:
        texts = [
            None
            if payload is None
            else as_json(payload, of_versions.get(version if of is None else of), reader)
            for payload, of in zip(payloads.to_pylist(), versions.to_pylist(), strict=True)
        ]
        return pa.array(texts, pa.string())

    return decode


def as_json(payload: bytes, writer: str | None, reader: str) -> str | None:
    """Return a payload as JSON with the fields of `reader`. Return None if it cannot be read.

    A payload cannot be read if `writer` is None, if it does not fit `writer`, or if `writer` does not convert to
    `reader`. `writer` and `reader` are Avro schemas as JSON. In the returned JSON, bytes are base64, and times are
    numbers, as in `spark_type`.
    """
    if writer is None:
        return None
    stream = io.BytesIO(payload)
    try:
        found = fastavro.schemaless_reader(stream, _parsed(writer, reader), _parsed(reader, reader))
    except Exception:  # of any kind: fastavro passes on whatever Python's own conversions raise
        return None
    return None if stream.read(1) else json.dumps(found, default=_base64)


@lru_cache(maxsize=1_000)
def _parsed(definition: str, reader: str) -> Any:
    plain = named_like(json.loads(definition), json.loads(reader))
    return fastavro.parse_schema(_without_logical_types(plain))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_logical_types(part) for name, part in schema.items() if name != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    return schema


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
