"""Builders for answers about schemas."""

from __future__ import annotations

from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.commands.schema import schema_body
from vela.wire.binary.enums import ServerError
from vela.wire.binary.schema import Schema
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = ["schema_refused", "schema_response", "schema_version"]


def schema_response(request_id: int, schema: Schema, version: bytes) -> bytes:
    """Build GET_SCHEMA_RESPONSE."""
    body = pb.CommandGetSchemaResponse(
        request_id=request_id, schema=schema_body(schema), schema_version=version
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=body))


def schema_version(request_id: int, version: bytes) -> bytes:
    """Build GET_OR_CREATE_SCHEMA_RESPONSE. `version` is b"" for a schema of type NONE."""
    body = pb.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=version)
    kind = pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, getOrCreateSchemaResponse=body))


def schema_refused(request_id: int, code: ServerError, message: str, *, creating: bool) -> bytes:
    """Build GET_OR_CREATE_SCHEMA_RESPONSE or GET_SCHEMA_RESPONSE with an error."""
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
