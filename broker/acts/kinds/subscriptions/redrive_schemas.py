"""Find the version that a dead letter's schema has in the target topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import IncompatibleSchema, SchemaNotFound
from broker.core.schemas.schema import version_bytes
from broker.core.topic_name import TopicName

if TYPE_CHECKING:
    from broker.producers.schemas import Schemas

__all__ = ["SchemaVersions"]


class SchemaVersions:
    """Finds and caches schema versions of target topics.

    A version number is valid for one topic only.
    """

    def __init__(self, schemas: Schemas, letter_topic: str) -> None:
        self._schemas = schemas
        self._letter_topic = TopicName.parse(letter_topic).base
        self._found: dict[tuple[str, bytes], bytes] = {}

    async def of_letter(self, version: bytes, target: str) -> bytes:
        """Return the version of a letter's schema in the target topic, or b"" if the topic does not have the schema."""
        if not version:
            return b""
        found = self._found.get((target, version)) or await self._find(version, target)
        if found:  # Do not cache unknown versions, because producers could send any number of them
            self._found[target, version] = found
        return found

    async def _find(self, version: bytes, target: str) -> bytes:
        try:
            schema, _ = await self._schemas.get(self._letter_topic, version)
        except (SchemaNotFound, IncompatibleSchema):
            return b""
        for each in await self._schemas.versions(TopicName.parse(target).base):
            if each.schema.is_same(schema):
                return version_bytes(each.version)
        return b""
