"""Keep deliveries back until the client has fetched the schema version that they were written with.

Only consumers whose schema can read other versions (Avro) have a gate. For the consumer, these deliveries have not
arrived yet. If their connection is lost in the meantime, they are dropped. The next connection fetches the versions
again: if the topic was deleted and created again, the same versions name other schemas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from vela.errors import AuthenticationError, ErrorGettingAuthenticationData, HandshakeError, VelaError
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
_NOT_ASKED: Final = (AuthenticationError, ErrorGettingAuthenticationData, HandshakeError)
"""Errors before the broker could be asked. The next attempt may have a renewed token, or reach the broker."""


class SchemaGate:
    """Keeps back deliveries of one consumer."""

    def __init__(
        self,
        client: ClientPorts,
        topic: str,
        schema: Schema[Any],
        deliver: Callable[[Connection, replies.Message], None],
    ) -> None:
        """`deliver` gets the kept deliveries, in order, when the first one's version is fetched or cannot be fetched.

        `deliver` must call `keeps_back` again, because the others may have other versions.
        """
        self._client = client
        self._topic = topic
        self._schema = schema
        self._deliver = deliver
        self._fetched: set[bytes] = set()  # versions looked up since the consumer subscribed
        self._waiting: list[tuple[Connection, replies.Message]] = []
        self._fetching: asyncio.Task[None] | None = None

    def keeps_back(self, connection: Connection, reply: replies.Message) -> bool:
        """Return whether the gate keeps this delivery for later."""
        if self._waiting:
            self._waiting.append((connection, reply))
            return True
        try:
            version = parse_metadata(reply.entry_block)[0].schema_version
        except MetadataCorrupt:
            return False  # the intake reports the damage
        if not version or version in self._fetched:
            return False
        self._waiting.append((connection, reply))
        self._fetching = asyncio.get_running_loop().create_task(self._fetch(version))
        return True

    async def _fetch(self, version: bytes) -> None:
        self._schema.add_version(self._topic, version, await self._found(version))
        self._fetched.add(version)
        waiting, self._waiting = self._waiting, []
        for connection, reply in waiting:
            self._deliver(connection, reply)

    async def _found(self, version: bytes) -> SchemaInfo | None:
        while True:
            try:
                return SchemaInfo.from_wire((await self._client.get_schema(self._topic, version)).schema)
            except ValueError as error:
                logger.warning("%s: cannot use its schema: %s", self._topic, error)
                return None
            except VelaError as error:
                if not (error.retriable or isinstance(error, _NOT_ASKED)):
                    logger.warning("%s: cannot fetch its schema: %s", self._topic, error)
                    return None
                logger.warning(
                    "%s: cannot fetch its schema, will try again in a second: %s", self._topic, error
                )
            await asyncio.sleep(_PAUSE_AFTER_ERROR_S)

    def close(self) -> None:
        """Drop waiting deliveries, and begin again with the next connection."""
        self._fetched.clear()
        self._waiting.clear()
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
