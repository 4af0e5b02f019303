"""The option `schemas`: the schemas with which payloads were encoded before, for rows that have a `__schemaVersion`."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import InvalidOption
from vela.schema.base import Schema, SchemaInfo, SchemaType
from vela.wire.binary.schema import Schema as WireSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EncodedSchema", "stored_schemas"]


def stored_schemas(text: str) -> Mapping[int, WireSchema]:
    """Return the option's schemas by version. Raises InvalidOption for text that is not from `sink_schemas`."""
    try:
        return {
            int(version): WireSchema(
                name="",
                type=each["type"],
                data=base64.b64decode(each["definition"]),
                properties=dict(each.get("properties", {})),
            )
            for version, each in json.loads(text or "{}").items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidOption(
            "option schemas cannot be read: give it what pipeline.schemas.sink_schemas(url=…, topic=…) returns"
        ) from None


class EncodedSchema(Schema[bytes]):
    """The schema of payloads that are encoded already."""

    def __init__(self, schema: WireSchema) -> None:
        self._schema_info = _StoredInfo(name=schema.name, schema_type=SchemaType.NONE, wire=schema)

    def encode(self, obj: bytes) -> bytes:
        """Return `obj` itself."""
        return obj

    def decode(self, data: bytes) -> bytes:
        """Return `data` itself."""
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredInfo(SchemaInfo):
    """A schema as the broker has it, perhaps of a type that the client does not know."""

    wire: WireSchema

    def to_wire(self) -> WireSchema:
        return self.wire
