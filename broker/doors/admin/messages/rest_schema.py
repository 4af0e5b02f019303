"""Find the schema of a REST request, and encode text with the schema."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.core.errors import IncompatibleSchema, SchemaNotFound
from broker.core.schemas.payload import check_payload
from broker.core.schemas.schema import SchemaDefinition, SchemaType, version_bytes
from broker.doors.admin.refusals import Refused
from broker.doors.admin.schemas import type_named

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.producers.schemas import Schemas

__all__ = ["RestSchema", "schema_of"]

_TEXTS: Final = (SchemaType.NONE, SchemaType.STRING, SchemaType.JSON)
_FORMATS: Final = {
    SchemaType.INT8: ">b",
    SchemaType.INT16: ">h",
    SchemaType.INT32: ">i",
    SchemaType.INT64: ">q",
    SchemaType.FLOAT: ">f",
    SchemaType.DOUBLE: ">d",
}
_BOOLEANS: Final = {"true": b"\x01", "false": b"\x00"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSchema:
    """The schema of a request's messages."""

    stored: SchemaDefinition | None = None
    version: bytes = b""
    # Comes with the request. The broker stores this schema before it publishes.
    new: SchemaDefinition | None = None

    def encoded(self, text: str) -> bytes:
        """Return the bytes of one payload.

        Raises IncompatibleSchema if the text does not fit the schema. Raises Refused if REST cannot write values of
        the schema's type.
        """
        schema = self.new or self.stored
        if schema is None:
            return text.encode()
        data = _encoded(schema.type, text)
        check_payload(schema, data)
        return data


def _encoded(type_: SchemaType, text: str) -> bytes:
    if type_ in _TEXTS:
        return text.encode()
    if type_ is SchemaType.BOOL:
        if text.lower() not in _BOOLEANS:
            raise IncompatibleSchema("it is neither true nor false")
        return _BOOLEANS[text.lower()]
    form = _FORMATS.get(type_)
    if form is None:
        raise Refused(
            422,
            f"REST does not write values of type {type_.name}: publish with a client, or send base64 over a WebSocket",
        )
    try:
        return struct.pack(form, float(text) if form in (">f", ">d") else int(text))
    except (ValueError, struct.error, OverflowError):
        raise IncompatibleSchema(f"it is not a number of type {type_.name}") from None


async def schema_of(
    schemas: Schemas, topic: TopicName, *, version: int, key_schema: str | None, value_schema: str | None
) -> RestSchema:
    """Return the schema that a request asks for, or else the topic's latest schema.

    Raises Refused for a schema that REST cannot use, and SchemaNotFound for a version that is not stored.
    """
    if key_schema:
        raise Refused(422, "keySchema: REST has no KeyValue messages; publish them with a client")
    if value_schema:
        return RestSchema(new=_read(value_schema))
    try:
        wanted = None if version < 0 else version_bytes(version)
        stored, found = await schemas.get(topic.base, wanted)
    except SchemaNotFound:
        if version >= 0:
            raise
        return RestSchema()
    except struct.error:
        raise Refused(400, f"schemaVersion {version} is too large") from None
    return RestSchema(stored=stored, version=found)


def _read(text: str) -> SchemaDefinition:
    try:
        info: Any = json.loads(
            text if text.lstrip().startswith("{") else base64.b64decode(text, validate=True)
        )
        data = base64.b64decode(info.get("schema") or "", validate=True)
        properties = {str(key): str(value) for key, value in (info.get("properties") or {}).items()}
        kind = str(info["type"])
        name = str(info.get("name") or "")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise Refused(
            422,
            "valueSchema is not a SchemaInfo: send a JSON object with a type, and its schema in base64; you may"
            " send the whole object in base64 too",
        ) from None
    for each in (name, *properties, *properties.values()):
        try:
            each.encode()
        except UnicodeEncodeError:
            raise Refused(
                422,
                "valueSchema: the name or a property contains half of a surrogate pair, which UTF-8 cannot write",
            ) from None
    type_ = type_named(kind)
    if type_ is SchemaType.KEY_VALUE:
        raise Refused(422, "valueSchema: REST has no KeyValue messages; publish them with a client")
    return SchemaDefinition(type=type_, data=data, name=name, properties=properties)
