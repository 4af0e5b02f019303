"""Find the schema of a dead letter among the schemas of a redrive's target topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import IncompatibleSchema, SchemaNotFound
from broker.core.schemas.schema import version_bytes
from broker.core.topic_name import TopicName

if TYPE_CHECKING:
    from broker.producers.schemas import Schemas

__all__ = ["SchemaVersions"]


class SchemaVersions:
    """The versions that schemas of a dead-letter topic have in other topics.

    A version number is valid on one topic only, so a letter cannot keep its own. Without a version, readers would
    decode its payload by their own schema, which may be newer.
    """

    def __init__(self, schemas: Schemas, letter_topic: str) -> None:
        self._schemas = schemas
        self._letter_topic = TopicName.parse(letter_topic).base
        self._found: dict[tuple[str, bytes], bytes] = {}

    async def of_letter(self, version: bytes, target: str) -> bytes:
        """Return the target's version of a letter's schema; b"" if the letter or the target has no such schema."""
        if not version:
            return b""
        found = self._found.get((target, version)) or await self._find(version, target)
        if found:  # remember no failures: the producers of letters may name any number of unknown versions
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
