"""The schemas of REST messages: what a request may say, and the bytes that its texts become."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest

from broker.core.errors import IncompatibleSchema, SchemaNotFound
from broker.core.schemas.schema import SchemaDefinition, SchemaType
from broker.core.topic_name import TopicName
from broker.doors.admin.messages.rest_schema import RestSchema, schema_of
from broker.doors.admin.refusals import Refused
from broker.producers.schemas import Schemas

HALVES = ('{"type": "STRING", "name": "\\ud800"}', '{"type": "STRING", "properties": {"a": "\\ud800"}}')
TOPIC = TopicName.parse("shop/eu/orders-partition-1")


class StoredSchemas:
    """The versions of persistent://shop/eu/orders: a text, then a number."""

    async def get(self, topic: str, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        assert topic == "persistent://shop/eu/orders"
        number = 1 if version is None else int.from_bytes(version, "big")
        if number > 1:
            raise SchemaNotFound("there is no such version")
        type_ = (SchemaType.STRING, SchemaType.INT32)[number]
        return SchemaDefinition(type=type_, data=b"", name="", properties={}), number.to_bytes(8, "big")


async def found(
    *, version: int = -1, key_schema: str | None = None, value_schema: str | None = None
) -> RestSchema:
    schemas = cast(Schemas, StoredSchemas())
    return await schema_of(schemas, TOPIC, version=version, key_schema=key_schema, value_schema=value_schema)


def given(type_: SchemaType) -> RestSchema:
    return RestSchema(new=SchemaDefinition(type=type_, data=b"", name="", properties={}))


async def test_the_latest_schema_of_the_topic_applies_unless_a_version_is_named() -> None:
    assert (await found()).encoded("7") == b"\0\0\0\7"
    assert (await found(version=0)).encoded("7") == b"7"
    with pytest.raises(SchemaNotFound):
        await found(version=2)
    for outside in (2**63, 2**70):
        with pytest.raises(Refused, match="too large"):
            await found(version=outside)


@pytest.mark.parametrize("in_base64", [False, True])
async def test_a_schema_may_come_with_the_messages(in_base64: bool) -> None:
    info: dict[str, Any] = {
        "name": "n",
        "type": "STRING",
        "schema": base64.b64encode(b"x").decode(),
        "properties": {"a": "b"},
    }
    text = json.dumps(info)
    schema = await found(value_schema=base64.b64encode(text.encode()).decode() if in_base64 else text)
    assert schema.new == SchemaDefinition(type=SchemaType.STRING, data=b"x", name="n", properties={"a": "b"})
    assert schema.version == b""


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "x",
        "[]",
        "{}",
        '{"type": "NOTHING"}',
        '{"type": "STRING", "schema": "?"}',
        "e30=",
        "W10=",
        *HALVES,
    ],
)
async def test_a_schema_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        await found(value_schema=text)
    assert refused.value.status == 422
    assert "Error(" not in refused.value.reason


async def test_messages_of_two_parts_are_refused() -> None:
    with pytest.raises(Refused, match="KeyValue"):
        await found(key_schema="{}")
    with pytest.raises(Refused, match="KeyValue"):
        await found(value_schema='{"type": "KEY_VALUE"}')


@pytest.mark.parametrize(
    ("type_", "text", "data"),
    [
        (SchemaType.STRING, "größe", "größe".encode()),
        (SchemaType.NONE, "x", b"x"),
        (SchemaType.JSON, '{"a":1}', b'{"a":1}'),
        (SchemaType.BOOL, "true", b"\1"),
        (SchemaType.INT8, "-1", b"\xff"),
        (SchemaType.INT16, "258", b"\1\2"),
        (SchemaType.INT64, "-1", b"\xff" * 8),
        (SchemaType.FLOAT, "1.5", b"\x3f\xc0\0\0"),
        (SchemaType.DOUBLE, "1.5", b"\x3f\xf8" + bytes(6)),
    ],
)
def test_a_text_becomes_the_bytes_of_its_schema(type_: SchemaType, text: str, data: bytes) -> None:
    assert given(type_).encoded(text) == data


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (SchemaType.INT8, "128"),
        (SchemaType.INT32, "x"),
        (SchemaType.INT32, "1.5"),
        (SchemaType.FLOAT, "1e99"),
        (SchemaType.BOOL, "1"),
        (SchemaType.JSON, "{"),
    ],
)
def test_a_text_that_is_not_a_value_of_the_schema_is_refused(type_: SchemaType, text: str) -> None:
    with pytest.raises(IncompatibleSchema):
        given(type_).encoded(text)


def test_types_that_rest_cannot_write_are_refused() -> None:
    with pytest.raises(Refused, match="AVRO"):
        given(SchemaType.AVRO).encoded("{}")


def test_without_a_schema_a_text_is_stored_as_it_is() -> None:
    assert RestSchema().encoded("größe") == "größe".encode()
