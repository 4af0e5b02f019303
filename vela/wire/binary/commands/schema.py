"""Schemas: asking for a topic's schema, and storing a schema."""

from __future__ import annotations

from vela.wire.binary.commands.connection import frame_of
from vela.wire.binary.schema import Schema
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = [
    "get_or_create_schema",
    "get_schema",
    "schema_body",
]


def schema_body(schema: Schema) -> pb.Schema:
    """Return a schema as commands carry it."""
    return pb.Schema(
        name=schema.name,
        schema_data=schema.data,
        type=pb.Schema.Type.ValueType(schema.type),
        properties=[pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()],
    )


def get_schema(topic: str, *, request_id: int, version: bytes | None = None) -> bytes:
    """GET_SCHEMA: asks for a version of a topic's schema; without `version`, for the latest."""
    body = pb.CommandGetSchema(request_id=request_id, topic=topic, schema_version=version)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA, getSchema=body))


def get_or_create_schema(topic: str, *, request_id: int, schema: Schema) -> bytes:
    """GET_OR_CREATE_SCHEMA: asks for the version of a schema, which the broker stores if it is new."""
    body = pb.CommandGetOrCreateSchema(request_id=request_id, topic=topic, schema=schema_body(schema))
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA, getOrCreateSchema=body))
