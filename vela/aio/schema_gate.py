"""Holds deliveries back until the schema version that they were written with is known.

Only consumers whose schema reads other versions have one (Avro). What is held has not been looked at: it is as if it
were still on its way, and a connection that is lost meanwhile takes it along.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from vela.errors import VelaError
from vela.schema.base import Schema, SchemaInfo
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import MetadataCorrupt

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.connections.connection import Connection
    from vela.wire.binary import replies

__all__ = ["SchemaGate"]

logger = logging.getLogger(__name__)

_PAUSE_AFTER_ERROR_S: Final = 1.0


class SchemaGate:
    """Of one consumer."""

    def __init__(
        self,
        client: ClientPorts,
        topic: str,
        schema: Schema[Any],
        deliver: Callable[[Connection, replies.Message], None],
    ) -> None:
        """`deliver` is called with what was held, in order; it asks `holds` again."""
        self._client = client
        self._topic = topic
        self._schema = schema
        self._deliver = deliver
        self._held: list[tuple[Connection, replies.Message]] = []
        self._fetching: asyncio.Task[None] | None = None

    def holds(self, connection: Connection, reply: replies.Message) -> bool:
        """Whether it keeps this delivery for later."""
        if self._held:
            self._held.append((connection, reply))
            return True
        try:
            version = parse_metadata(reply.entry_block)[0].schema_version
        except MetadataCorrupt:
            return False  # whoever opens it says what is wrong with it
        if not self._schema.wants_version(self._topic, version):
            return False
        self._held.append((connection, reply))
        self._fetching = asyncio.get_running_loop().create_task(self._fetch(version))
        return True

    async def _fetch(self, version: bytes) -> None:
        self._schema.add_version(self._topic, version, await self._found(version))
        held, self._held = self._held, []
        for connection, reply in held:
            self._deliver(connection, reply)

    async def _found(self, version: bytes) -> SchemaInfo | None:
        while True:
            try:
                return SchemaInfo.from_wire((await self._client.get_schema(self._topic, version)).schema)
            except ValueError as error:
                logger.warning("%s: its schema cannot be used here: %s", self._topic, error)
                return None
            except VelaError as error:
                if not error.retriable:
                    logger.warning("%s: its schema could not be had: %s", self._topic, error)
                    return None
                logger.warning(
                    "%s: its schema could not be had, once more in a second: %s", self._topic, error
                )
            await asyncio.sleep(_PAUSE_AFTER_ERROR_S)

    def close(self) -> None:
        """Forget what is held."""
        self._held.clear()
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
