"""The schema registry."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.core.errors import IncompatibleSchema, SchemaNotFound
from broker.core.schemas.compatibility import (
    check_definition,
    check_reader,
    check_successor,
    compared_versions,
)
from broker.core.schemas.schema import (
    DELETED,
    SchemaDefinition,
    SchemaType,
    StoredSchema,
    since_deletion,
    version_bytes,
    version_number,
)
from broker.storage.pool import ConnectionPool, repeat_until_done
from broker.storage.topics import schemas as store

if TYPE_CHECKING:
    from broker.core.policies import Policies, SchemaCompatibility

__all__ = ["Schemas", "check_schema"]

MAX_SCHEMA_BYTES = 1024 * 1024
MAX_NAMES_BYTES = 64 * 1024  # Limit for a schema's name and properties
MAX_VERSIONS = 10_000
MAX_TOPIC_BYTES = 64 * 1024 * 1024  # Limit for all versions of a topic's schema together


def check_schema(schema: SchemaDefinition) -> None:
    """Check a schema's size and definition. Raises IncompatibleSchema."""
    if len(schema.data) > MAX_SCHEMA_BYTES:
        raise IncompatibleSchema(f"a schema of {len(schema.data)} bytes, the limit is {MAX_SCHEMA_BYTES}")
    if (names_bytes := _names_bytes(schema)) > MAX_NAMES_BYTES:
        raise IncompatibleSchema(
            f"the name and properties of the schema have {names_bytes} bytes, the limit is {MAX_NAMES_BYTES}"
        )
    if any("\0" in text for text in _names(schema)):
        raise IncompatibleSchema(
            "the name or a property of the schema contains NUL, which PostgreSQL cannot store"
        )
    check_definition(schema)


def _names(schema: SchemaDefinition) -> tuple[str, ...]:
    return schema.name, *schema.properties, *schema.properties.values()


def _names_bytes(schema: SchemaDefinition) -> int:
    return sum(len(text.encode(errors="surrogatepass")) for text in _names(schema))


async def _compare(
    check: Callable[[Sequence[StoredSchema], SchemaDefinition, SchemaCompatibility], None],
    versions: Sequence[StoredSchema],
    schema: SchemaDefinition,
    strategy: SchemaCompatibility,
) -> None:
    for number, each in enumerate([[version] for version in compared_versions(versions, strategy)] or [[]]):
        if number:
            await asyncio.sleep(0)
        check(each, schema, strategy)


class Schemas:
    """The schemas of all topics.

    The argument `topic` is the full name of a base topic, never of a partition. Callers must pass a client's schema
    to `check_schema` first.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._known: dict[str, list[StoredSchema]] = {}
        self._adding: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of_producer(self, topic: str, schema: SchemaDefinition | None, policies: Policies) -> bytes:
        """Return the version of a producer's schema, and store the schema if it is new.

        Returns b"" for a producer without a schema. Raises IncompatibleSchema.
        """
        if schema is not None and schema.type is not SchemaType.NONE:
            return await self.add(topic, schema, policies)
        if policies.schema_validation_enforced and await self.versions(topic):
            raise IncompatibleSchema(
                f"{topic} has a schema and the policy schema_validation_enforced is on: open the producer with one"
            )
        return b""

    async def of_consumer(
        self, topic: str, schema: SchemaDefinition | None, policies: Policies, *, is_idle: bool
    ) -> None:
        """Check a consumer's schema. If the topic is idle and has no schema, store the consumer's schema.

        An idle topic has no messages and no clients. Raises IncompatibleSchema.
        """
        if schema is None or schema.type in (SchemaType.NONE, SchemaType.AUTO_CONSUME):
            return
        versions = await self.versions(topic)
        if not versions and is_idle:
            await self.add(topic, schema, policies)
        elif not any(each.schema.is_same(schema) for each in versions):
            await _compare(check_reader, versions, schema, policies.schema_compatibility)

    async def add(self, topic: str, schema: SchemaDefinition, policies: Policies) -> bytes:
        """Return the version of a schema, and store the schema if it is new. Raises IncompatibleSchema."""
        async with self._adding[topic]:
            while True:
                versions = await self.versions(topic)
                for each in versions:
                    if each.schema.is_same(schema):
                        return version_bytes(each.version)
                await _compare(check_successor, versions, schema, policies.schema_compatibility)
                if (version := await self._append(topic, schema)) is not None:
                    return version_bytes(version)

    async def check_next(self, topic: str, schema: SchemaDefinition, strategy: SchemaCompatibility) -> None:
        """Check that a schema could be the topic's next version. Raises IncompatibleSchema."""
        await _compare(check_successor, await self.versions(topic), schema, strategy)

    async def delete(self, topic: str) -> int:
        """Add a version that marks the topic's schema as deleted, and return the version number.

        Raises SchemaNotFound and IncompatibleSchema.
        """
        async with self._adding[topic]:
            while True:
                if not await self.versions(topic):
                    raise SchemaNotFound(f"{topic} does not have a schema")
                if (version := await self._append(topic, DELETED)) is not None:
                    return version

    async def _append(self, topic: str, schema: SchemaDefinition) -> int | None:
        versions = await self._versions(topic)
        if len(versions) >= MAX_VERSIONS:
            raise IncompatibleSchema(f"{topic} has {len(versions)} schema versions, the limit")
        all_schemas = (*(each.schema for each in versions), schema)
        size_bytes = sum(len(each.data) + _names_bytes(each) for each in all_schemas)
        if schema.data and size_bytes > MAX_TOPIC_BYTES:
            raise IncompatibleSchema(
                f"with this one, the {len(versions) + 1} schema versions of {topic} would have {size_bytes} bytes, the"
                f" limit is {MAX_TOPIC_BYTES}: use another topic"
            )
        version = versions[-1].version + 1 if versions else 0
        if await repeat_until_done(
            self._pool, lambda c: store.add(c, topic, version, schema), what="storing a schema"
        ):
            # If `versions` is cached, this updates the cache too. An empty list is not cached.
            versions.append(StoredSchema(version=version, schema=schema))
            return version
        # Another process stored this version, or an earlier attempt succeeded unnoticed.
        self._known.pop(topic, None)
        return None

    async def versions(self, topic: str) -> list[StoredSchema]:
        """Return the versions after the last deletion, oldest first."""
        return since_deletion(await self._versions(topic))

    async def get(self, topic: str, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """Return a schema and its version. If `version` is None, return the latest schema.

        Raises SchemaNotFound and IncompatibleSchema.
        """
        number = None if version is None else version_number(version)
        stored = await self.versions(topic) if number is None else await self._versions(topic)
        for each in reversed(stored):
            if (number is None or each.version == number) and not each.is_deletion:
                return each.schema, version_bytes(each.version)
        which = "a schema" if number is None else f"schema version {number}"
        raise SchemaNotFound(f"{topic} does not have {which}")

    def forget(self, topic: str) -> None:
        """Forget the schemas of a deleted topic."""
        self._known.pop(topic, None)
        self._adding.pop(topic, None)

    async def _versions(self, topic: str) -> list[StoredSchema]:
        known = self._known.get(topic)
        if known is None:
            found = await repeat_until_done(
                self._pool, lambda c: store.of_topic(c, topic), what="reading schemas"
            )
            # Do not cache empty lists, because clients may ask for any number of missing topics.
            known = self._known.setdefault(topic, found) if found else found
        return known
