"""Decide which schemas a topic accepts for writing and for reading."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from broker.core.errors import IncompatibleSchema
from broker.core.policies import SchemaCompatibility
from broker.core.schemas import avro_resolution
from broker.core.schemas.schema import SchemaDefinition, SchemaType, StoredSchema, key_and_value

__all__ = ["check_definition", "check_reader", "check_successor", "compared_versions"]

_RECORDS: Final = frozenset({SchemaType.JSON, SchemaType.AVRO, SchemaType.PROTOBUF})
_NEW_READS_OLD: Final = frozenset(
    {
        SchemaCompatibility.BACKWARD,
        SchemaCompatibility.BACKWARD_TRANSITIVE,
        SchemaCompatibility.FULL,
        SchemaCompatibility.FULL_TRANSITIVE,
        SchemaCompatibility.UNDEFINED,
    }
)
_OLD_READS_NEW: Final = frozenset(
    {
        SchemaCompatibility.FORWARD,
        SchemaCompatibility.FORWARD_TRANSITIVE,
        SchemaCompatibility.FULL,
        SchemaCompatibility.FULL_TRANSITIVE,
        SchemaCompatibility.UNDEFINED,
    }
)
_TRANSITIVE: Final = frozenset(
    {
        SchemaCompatibility.BACKWARD_TRANSITIVE,
        SchemaCompatibility.FORWARD_TRANSITIVE,
        SchemaCompatibility.FULL_TRANSITIVE,
    }
)


def check_definition(schema: SchemaDefinition) -> None:
    """Check that a schema can be stored. Raises IncompatibleSchema otherwise."""
    if schema.type in _RECORDS:
        avro_resolution.parse(schema.data)
    elif schema.type is SchemaType.KEY_VALUE:
        for part in key_and_value(schema):
            if part.type is not SchemaType.NONE:  # NONE means plain bytes
                check_definition(part)
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        _root_message(schema)
    elif schema.type in (SchemaType.AUTO_CONSUME, SchemaType.NONE):
        raise IncompatibleSchema(f"{schema.type.name} is not a schema that can be stored")


def compared_versions(
    stored: Sequence[StoredSchema], strategy: SchemaCompatibility
) -> Sequence[StoredSchema]:
    """Return all versions for a transitive strategy, and otherwise only the latest version."""
    return stored if strategy in _TRANSITIVE else stored[-1:]


def check_successor(
    stored: Sequence[StoredSchema], new: SchemaDefinition, strategy: SchemaCompatibility
) -> None:
    """Check that a new schema may follow the stored versions. Raises IncompatibleSchema otherwise.

    `stored` is in ascending order of versions.
    """
    check_definition(new)
    if not stored or strategy is SchemaCompatibility.ALWAYS_COMPATIBLE:
        return
    if strategy in (SchemaCompatibility.ALWAYS_INCOMPATIBLE, SchemaCompatibility.AUTO_UPDATE_DISABLED):
        raise IncompatibleSchema(
            f"the topic has a schema, and its policy schema_compatibility ({strategy}) allows no other"
        )
    for each in compared_versions(stored, strategy):
        if strategy in _NEW_READS_OLD and (why := _why_unreadable(new, each.schema)) is not None:
            raise IncompatibleSchema(f"the new schema cannot read version {each.version} ({strategy}): {why}")
        if strategy in _OLD_READS_NEW and (why := _why_unreadable(each.schema, new)) is not None:
            raise IncompatibleSchema(f"version {each.version} cannot read the new schema ({strategy}): {why}")


def check_reader(
    stored: Sequence[StoredSchema], reader: SchemaDefinition, strategy: SchemaCompatibility
) -> None:
    """Check that a consumer's schema can read the versions that `compared_versions` returns.

    Raises IncompatibleSchema if it cannot, or if the topic has no schema.
    """
    if not stored:
        raise IncompatibleSchema("the topic has messages or clients but no schema; subscribe without one")
    if strategy is SchemaCompatibility.ALWAYS_COMPATIBLE:
        return
    check_definition(reader)
    for each in compared_versions(stored, strategy):
        if (why := _why_unreadable(reader, each.schema)) is not None:
            raise IncompatibleSchema(f"the consumer's schema cannot read version {each.version}: {why}")


def _why_unreadable(reader: SchemaDefinition, writer: SchemaDefinition) -> str | None:
    if reader.type is not writer.type:
        return f"{writer.type.name} cannot be read as {reader.type.name}"
    if reader.is_same(writer):
        return None
    if reader.type in _RECORDS:
        return avro_resolution.why_unreadable(
            avro_resolution.parse(reader.data), avro_resolution.parse(writer.data)
        )
    if reader.type is SchemaType.KEY_VALUE:
        pairs = zip(("key", "value"), key_and_value(reader), key_and_value(writer), strict=True)
        for part, read, written in pairs:
            if (why := _why_unreadable(read, written)) is not None:
                return f"{part}: {why}"
        return None
    if reader.type is SchemaType.PROTOBUF_NATIVE:
        # Fields are not compared, because Protobuf skips unknown fields.
        read_as, written_as = _root_message(reader), _root_message(writer)
        return None if read_as == written_as else f"{written_as} cannot be read as {read_as}"
    return None


def _root_message(schema: SchemaDefinition) -> str:
    try:
        name = json.loads(schema.data)["rootMessageTypeName"]
    except (ValueError, TypeError, KeyError):
        raise IncompatibleSchema("the schema names no rootMessageTypeName") from None
    return str(name)
