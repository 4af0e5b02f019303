"""The schemas of topics. The partitions of a topic share one set of schemas."""

from __future__ import annotations

import json
from typing import Final

from ninja import Router
from pydantic import BaseModel, Field

from broker.core.access.permissions import Action
from broker.core.errors import IncompatibleSchema
from broker.core.policies import Policies
from broker.core.schemas.schema import (
    SchemaDefinition,
    SchemaType,
    StoredSchema,
    key_and_value,
    version_number,
)
from broker.core.topic_name import TopicName
from broker.doors.admin.catalogue import named
from broker.doors.admin.operations import operation
from broker.doors.admin.policies.changes import of_topic
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest, PulsarObject
from broker.doors.admin.topics import find_or_make_topic
from broker.producers.schemas import check_schema

__all__ = ["router", "type_named"]

_SCHEMAS: Final = "/admin/v2/schemas/{segment:tenant}/{segment:namespace}/{segment:topic}"
_NAMES: Final = {"BYTES": "NONE", "BOOLEAN": "BOOL", "FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}

router = Router()


def type_named(name: str) -> SchemaType:
    """Return a schema type by its name, ignoring case. Raises Refused(422) for an unknown type."""
    upper = name.upper()
    type_ = SchemaType.__members__.get(_NAMES.get(upper, upper))
    if type_ is None:
        raise Refused(422, f"{name!r} is not a schema type: use one of {', '.join(SchemaType.__members__)}")
    return type_


class SchemaPayload(PulsarObject):
    """A schema in a request body. For a primitive type, `text` is empty."""

    type: str
    text: str = Field(default="", alias="schema")
    properties: dict[str, str] = Field(default_factory=dict)

    def definition(self) -> SchemaDefinition:
        """Return the schema. Raises Refused(422) for an invalid schema and for any KeyValue schema."""
        type_ = type_named(self.type)
        if type_ is SchemaType.KEY_VALUE:
            raise Refused(422, "a KeyValue schema is stored by the producer that uses it, not over this API")
        found = SchemaDefinition(type=type_, data=self.text.encode(), properties=self.properties)
        try:
            check_schema(found)
        except IncompatibleSchema as error:
            raise Refused(422, str(error)) from error
        return found


class SchemaResponse(BaseModel):
    """A version of a schema."""

    version: int
    type: str
    timestamp: int = 0
    data: str
    properties: dict[str, str]

    @classmethod
    def of(cls, stored: StoredSchema) -> SchemaResponse:
        """Convert a stored schema."""
        schema = stored.schema
        return cls(
            version=stored.version,
            type=schema.type.name,
            data=_data(schema),
            properties=dict(schema.properties),
        )


class AllSchemas(BaseModel):
    """Every version of a topic's schema since the schema was last deleted."""

    getSchemaResponses: list[SchemaResponse]  # noqa: N815 - Pulsar's name


class VersionResponse(BaseModel):
    """The version number of a schema."""

    version: int


class Compatibility(BaseModel):
    """Whether a schema could be the next version, and the strategy that decides."""

    compatibility: bool
    schemaCompatibilityStrategy: str  # noqa: N815 - Pulsar's name


@operation(router, "GET", f"{_SCHEMAS}/schema", Action.LOOK_UP)
async def get_schema(request: AdminRequest, tenant: str, namespace: str, topic: str) -> SchemaResponse:
    """Return the latest version of a schema."""
    return SchemaResponse.of((await _stored(request, tenant, namespace, topic))[-1])


@operation(router, "GET", f"{_SCHEMAS}/schema/{{number:version}}", Action.LOOK_UP)
async def get_schema_version(
    request: AdminRequest, tenant: str, namespace: str, topic: str, version: int
) -> SchemaResponse:
    """Return the schema with this version number."""
    for each in await _stored(request, tenant, namespace, topic):
        if each.version == version:
            return SchemaResponse.of(each)
    raise Refused(404, f"Schema version {version} not found")


@operation(router, "GET", f"{_SCHEMAS}/schemas", Action.LOOK_UP)
async def get_all_schemas(request: AdminRequest, tenant: str, namespace: str, topic: str) -> AllSchemas:
    """Return every version of a schema since the schema was last deleted."""
    stored = await _stored(request, tenant, namespace, topic)
    return AllSchemas(getSchemaResponses=[SchemaResponse.of(each) for each in stored])


@operation(router, "POST", f"{_SCHEMAS}/schema", Action.PRODUCE)
async def post_schema(
    request: AdminRequest, tenant: str, namespace: str, topic: str, payload: SchemaPayload
) -> dict[str, VersionResponse]:
    """Store a schema if it is new, and return its version."""
    name, definition = named("persistent", tenant, namespace, topic), payload.definition()
    await find_or_make_topic(request, TopicName.parse(name.base))
    policies = await _policies(request, name)
    version = await request.broker.schemas.add(name.base, definition, policies)
    return {"version": VersionResponse(version=version_number(version))}


@operation(router, "DELETE", f"{_SCHEMAS}/schema", Action.ADMINISTER)
async def delete_schema(
    request: AdminRequest, tenant: str, namespace: str, topic: str, force: bool = False
) -> VersionResponse:
    """Delete a topic's schema. Stored messages keep their schema versions, even with force=true."""
    name = TopicName.parse(named("persistent", tenant, namespace, topic).base)
    versions = await _stored(request, tenant, namespace, topic)
    await request.act("delete_schema", topic=name.full)
    return VersionResponse(version=versions[-1].version + 1)


@operation(router, "POST", f"{_SCHEMAS}/compatibility", Action.LOOK_UP)
async def test_compatibility(
    request: AdminRequest, tenant: str, namespace: str, topic: str, payload: SchemaPayload
) -> Compatibility:
    """Return whether a schema could be the next version."""
    name, definition = named("persistent", tenant, namespace, topic), payload.definition()
    strategy = (await _policies(request, name)).schema_compatibility
    try:
        await request.broker.schemas.check_next(name.base, definition, strategy)
    except IncompatibleSchema:
        return Compatibility(compatibility=False, schemaCompatibilityStrategy=strategy)
    return Compatibility(compatibility=True, schemaCompatibilityStrategy=strategy)


@operation(router, "POST", f"{_SCHEMAS}/version", Action.LOOK_UP)
async def get_version_by_schema(
    request: AdminRequest, tenant: str, namespace: str, topic: str, payload: SchemaPayload
) -> VersionResponse:
    """Return the version number of the schema in the request body."""
    definition = payload.definition()
    for each in await _stored(request, tenant, namespace, topic):
        if each.schema.is_same(definition):
            return VersionResponse(version=each.version)
    raise Refused(404, "Schema not found")


async def _stored(request: AdminRequest, tenant: str, namespace: str, topic: str) -> list[StoredSchema]:
    name = named("persistent", tenant, namespace, topic)
    stored = await request.broker.schemas.versions(name.base)
    if not stored:
        raise Refused(404, "Schema not found")
    return stored


async def _policies(request: AdminRequest, name: TopicName) -> Policies:
    holder = await of_topic(request, TopicName.parse(name.base))
    return (await request.broker.policies.documents.read(holder)).in_force


def _data(schema: SchemaDefinition) -> str:
    if schema.type is not SchemaType.KEY_VALUE:
        return schema.data.decode(errors="replace")
    key, value = key_and_value(schema)
    return json.dumps({"key": _part(key), "value": _part(value)})


def _part(part: SchemaDefinition) -> object:
    text = part.data.decode(errors="replace")
    try:
        return json.loads(text) if text else ""
    except ValueError:
        return text
