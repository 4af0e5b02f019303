"""Avro payloads as JSON, with the version of the schema that wrote them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pipeline.avro_payloads import as_json, decoder


def definition(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


def written(schema: str, value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return stream.getvalue()


PIECES = {"name": "pieces", "type": "int"}
ARTICLE = {"name": "article", "type": "string", "default": "none"}
OLD, NEW = definition(PIECES, name="OldOrder"), definition(ARTICLE, PIECES)


def test_each_payload_is_read_with_its_own_version() -> None:
    decode = decoder(NEW, version=1, writers={0: OLD, 1: NEW})
    old, new = written(OLD, {"pieces": 3}), written(NEW, {"article": "tea", "pieces": 5})
    payloads = pa.array([old, new, new, None, new], pa.binary())
    versions = pa.array([0, 1, None, 0, 7], pa.int64())
    texts = decode(payloads, versions).to_pylist()
    tea = {"article": "tea", "pieces": 5}
    assert [None if text is None else json.loads(text) for text in texts] == [
        {"article": "none", "pieces": 3},
        tea,
        tea,
        None,
        None,  # the topic has no schema version 7
    ]


def test_values_are_those_of_the_spark_type() -> None:
    schema = definition(
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "cost", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "home", "type": ["null", {"type": "record", "name": "Home", "fields": [PIECES]}]},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}},
    )
    plain = json.dumps(
        {
            **json.loads(schema),
            "fields": [
                {"name": "raw", "type": "bytes"},
                {"name": "at", "type": "long"},
                {"name": "cost", "type": "bytes"},
                *json.loads(schema)["fields"][3:],
            ],
        }
    )
    value = {"raw": b"\x00\xff", "at": 7, "cost": b"\x01", "home": {"pieces": 2}, "color": "RED"}
    text = as_json(written(plain, value), schema, schema)
    assert text is not None
    assert json.loads(text) == {**value, "raw": "AP8=", "cost": "AQ=="}


@pytest.mark.parametrize("payload", [b"", b"\x04", b"\x06te", b"\x06tea\x0a more", b"\xff" * 11])
def test_a_payload_that_is_not_of_the_schema_is_null(payload: bytes) -> None:
    assert as_json(payload, NEW, NEW) is None


def test_a_version_that_is_no_avro_schema_is_null() -> None:
    assert as_json(b"\x06", '{"type": "record"}', NEW) is None
    assert as_json(b"\x06", "no JSON", NEW) is None
