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
    from vela.core.producing.memory_limit import MemoryLimit
    from vela.wire.binary import replies

__all__ = ["ClientPorts", "Closes"]


class Closes(Protocol):
    """A consumer, producer or reader that the client can close."""

    async def close(self) -> None:
        """Close it. Must be safe to repeat."""


class ClientPorts(Protocol):
    """`vela.aio.Client`, as far as its consumers, producers and readers need it."""

    settings: ConnectionSettings
    pool: ConnectionPool
    memory: MemoryLimit  # limit for the queues of all consumers
    max_uncompressed_bytes: int  # of one message or batch
    listener_threads: ListenerThreads  # for listeners that are not coroutine functions

    @property
    def make_timers(self) -> Callable[[], Timers]:
        """Return the clock and timers for a consumer's acks, deadlines and chunks."""

    async def connection_for(self, topic: str) -> Connection:
        """Return a connection to the broker that serves a topic (full name). One attempt. `release` it after use."""

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool."""

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """Return how many partitions a topic (its full name) has, 0 if it is not partitioned."""

    async def get_topics_of_namespace(
        self,
        namespace: str,
        *,
        mode: TopicsMode = TopicsMode.PERSISTENT,
        pattern: str | None = None,
        known_hash: str | None = None,
    ) -> replies.TopicsOfNamespace:
        """Return the topics of "tenant/namespace", with each partition."""

    async def get_schema(self, topic: str, version: bytes | None = None) -> replies.SchemaFound:
        """Return a version of a topic's schema, None = the latest."""

    def new_consumer_id(self) -> int:
        """Return a number that no other consumer of this client has."""

    def new_producer_id(self) -> int:
        """Return a number that no other producer of this client has."""

    def keep(self, made: Closes) -> None:
        """Remember `made`, so that the client closes it."""

    def forget(self, made: Closes) -> None:
        """Forget `made`, which is closed."""
