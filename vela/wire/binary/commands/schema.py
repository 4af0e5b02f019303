"""Schemas: asking for one, storing one, and the answers."""

from __future__ import annotations

from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.enums import ServerError
from vela.wire.binary.schema import Schema
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = [
    "get_or_create_schema",
    "get_schema",
    "schema_body",
    "schema_refused",
    "schema_response",
    "schema_version",
]


def schema_body(schema: Schema) -> pb.Schema:
    """A schema as commands carry it."""
    return pb.Schema(
        name=schema.name,
        schema_data=schema.data,
        type=pb.Schema.Type.ValueType(schema.type),
        properties=[pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()],
    )


def get_schema(topic: str, *, request_id: int, version: bytes | None = None) -> bytes:
    """GET_SCHEMA; without a version the latest."""
    body = pb.CommandGetSchema(request_id=request_id, topic=topic, schema_version=version)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA, getSchema=body))


def get_or_create_schema(topic: str, *, request_id: int, schema: Schema) -> bytes:
    """GET_OR_CREATE_SCHEMA."""
    body = pb.CommandGetOrCreateSchema(request_id=request_id, topic=topic, schema=schema_body(schema))
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA, getOrCreateSchema=body))


def schema_response(request_id: int, schema: Schema, version: bytes) -> bytes:
    """GET_SCHEMA_RESPONSE."""
    body = pb.CommandGetSchemaResponse(
        request_id=request_id, schema=schema_body(schema), schema_version=version
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=body))


def schema_version(request_id: int, version: bytes) -> bytes:
    """GET_OR_CREATE_SCHEMA_RESPONSE."""
    body = pb.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=version)
    kind = pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, getOrCreateSchemaResponse=body))


def schema_refused(request_id: int, code: ServerError, message: str, *, creating: bool) -> bytes:
    """GET_SCHEMA_RESPONSE, or GET_OR_CREATE_SCHEMA_RESPONSE when `creating`, with an error."""
    if creating:
        kind = pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE
        created = pb.CommandGetOrCreateSchemaResponse(
            request_id=request_id, error_code=error_value(code), error_message=message
        )
        return frame_of(pb.BaseCommand(type=kind, getOrCreateSchemaResponse=created))
    body = pb.CommandGetSchemaResponse(
        request_id=request_id, error_code=error_value(code), error_message=message
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=body))
