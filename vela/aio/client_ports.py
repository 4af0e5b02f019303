"""What consumers, producers and readers need from their client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vela.wire.binary.enums import TopicsMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from vela.aio.connections.connection import Connection
    from vela.aio.connections.pool import ConnectionPool
    from vela.aio.connections.settings import ConnectionSettings
    from vela.aio.daemon_thread import ListenerThreads
    from vela.aio.timers import Timers
    from vela.core.flow.memory_limit import MemoryLimit
    from vela.wire.binary import replies

__all__ = ["ClientPorts", "Closes"]


class Closes(Protocol):
    """A consumer or producer that the client can close."""

    async def close(self) -> None:
        """Close it. Must be safe to repeat."""


class ClientPorts(Protocol):
    """The part of `vela.aio.Client` that its consumers, producers and readers use."""

    settings: ConnectionSettings
    pool: ConnectionPool
    memory: MemoryLimit  # limit for the payloads that wait in the queues of all consumers
    max_uncompressed_bytes: int  # limit for a message or batch after decompression
    listener_threads: ListenerThreads  # for listeners that are not coroutine functions

    @property
    def make_timers(self) -> Callable[[], Timers]:
        """Return a function that makes the clock and timers of a consumer, for acks, deadlines and chunks."""

    async def connection_for(self, topic: str) -> Connection:
        """Return a connection to the broker that serves a topic (full name). Tries once. `release` it after use."""

    def release(self, connection: Connection) -> None:
        """Give a connection back to the pool."""

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """Return how many partitions a topic (full name) has, 0 = none. `create` lets the broker create the topic."""

    async def get_topics_of_namespace(
        self,
        namespace: str,
        *,
        mode: TopicsMode = TopicsMode.PERSISTENT,
        pattern: str | None = None,
        known_hash: str | None = None,
    ) -> replies.TopicsOfNamespace:
        """Return the topics of "tenant/namespace", each partition by its own name.

        The broker may ignore `pattern`. If the hash of the list is still `known_hash`, no names are returned.
        """

    async def get_schema(self, topic: str, version: bytes | None = None) -> replies.SchemaFound:
        """Return a topic's schema: the one with `version`, or the latest if `version` is None.

        Raises TopicNotFound if the topic has no such schema.
        """

    def new_consumer_id(self) -> int:
        """Return a number that no other consumer of this client has."""

    def new_producer_id(self) -> int:
        """Return a number that no other producer of this client has."""

    def keep(self, made: Closes) -> None:
        """Remember `made`, so that the client closes it."""

    def forget(self, made: Closes) -> None:
        """Forget `made`, so that the client does not close it."""
