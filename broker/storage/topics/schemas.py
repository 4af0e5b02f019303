"""Schemas of topics in PostgreSQL."""

from __future__ import annotations

import json

from broker.core.schemas.schema import SchemaDefinition, SchemaType, StoredSchema
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["add", "of_topic"]


async def of_topic(connection: Connection, topic_name: str) -> list[StoredSchema]:
    """Return every stored version of a topic's schema, oldest first."""
    cursor = await connection.execute(query("schemas", "of_topic"), (topic_name,))
    return [
        StoredSchema(
            version=row[0],
            schema=SchemaDefinition(
                type=SchemaType(row[1]), name=row[2], data=bytes(row[3]), properties=row[4]
            ),
        )
        for row in await cursor.fetchall()
    ]


async def add(connection: Connection, topic_name: str, version: int, schema: SchemaDefinition) -> bool:
    """Store a version of a topic's schema. Return False if this version number already exists.

    If an earlier call lost its connection, that call may have stored the version.
    """
    cursor = await connection.execute(
        query("schemas", "add"),
        (
            topic_name,
            version,
            int(schema.type),
            schema.name,
            schema.data,
            json.dumps(dict(schema.properties)),
        ),
    )
    return await cursor.fetchone() is not None
