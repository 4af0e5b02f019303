"""`vela.aio.Client`: connections, look-ups, and the life of everything made with it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from importlib import metadata
from types import TracebackType
from typing import Protocol, Self

from vela.aio.connection import Connection
from vela.aio.lookup import LookupService
from vela.aio.pool import ConnectionPool, Target
from vela.aio.settings import ConnectionSettings
from vela.aio.tls import TlsOptions
from vela.authentication import Authentication, AuthenticationDisabled
from vela.core.service_url import parse_service_url
from vela.core.topic_name import full_name, partition_name
from vela.errors import AlreadyClosed, InvalidConfiguration
from vela.wire.binary import replies
from vela.wire.binary.enums import TopicsMode
from vela.wire.binary.events import Schema

__all__ = ["Client", "Closes"]


class Closes(Protocol):
    """What a client closes when it is closed."""

    async def close(self) -> None:
        """Close; must not raise for being closed already."""


class Client:
    """The way to one Vela (or Pulsar) installation. Use it, and all that it makes, on one event loop.

    Arguments up to `tls_certificate_file_path` are those of Apache's Python client, with its defaults;
    `io_threads`, `message_listener_threads` and `log_conf_file_path` are taken and mean nothing here.
    Nothing is connected before it is needed.
    """

    def __init__(
        self,
        service_url: str,
        authentication: Authentication | None = None,
        operation_timeout_seconds: float = 30,
        io_threads: int = 1,
        message_listener_threads: int = 1,
        concurrent_lookup_requests: int = 50000,
        log_conf_file_path: str | None = None,
        stats_interval_in_seconds: int = 600,
        use_tls: bool = False,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = False,
        logger: logging.Logger | None = None,
        connection_timeout_ms: int = 10000,
        listener_name: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        *,
        connections_per_broker: int = 1,
        connection_max_idle_seconds: float = 60,
        tcp_no_delay: bool = True,
        keep_alive_interval_seconds: float = 30,
        initial_backoff_ms: float = 100,
        max_backoff_ms: float = 60_000,
    ) -> None:
        """Raises InvalidUrl and InvalidConfiguration.

        operation_timeout_seconds: for opening producers and consumers and for each request.
        connection_timeout_ms: for TCP, TLS, WebSocket and protocol handshake together.
        concurrent_lookup_requests: on one connection; one more raises TooManyLookupRequestException.
        connections_per_broker: 0 = each consumer and producer has a connection to itself.
        connection_max_idle_seconds: after which an unused connection is closed.
        keep_alive_interval_seconds: between pings; after two of them without a byte the connection is given up.
        initial_backoff_ms, max_backoff_ms: pauses between attempts to connect again.
        """
        del io_threads, message_listener_threads, log_conf_file_path
        _positive(
            operation_timeout_seconds=operation_timeout_seconds,
            concurrent_lookup_requests=concurrent_lookup_requests,
            connection_timeout_ms=connection_timeout_ms,
            connection_max_idle_seconds=connection_max_idle_seconds,
            keep_alive_interval_seconds=keep_alive_interval_seconds,
            initial_backoff_ms=initial_backoff_ms,
            max_backoff_ms=max_backoff_ms,
        )
        if connections_per_broker < 0:
            raise InvalidConfiguration("connections_per_broker is 0 (no sharing) or more")
        self._service_url = parse_service_url(service_url, use_tls=use_tls)
        authentication = authentication or AuthenticationDisabled()
        certificate = authentication.tls_certificate_files() or (
            tls_certificate_file_path,
            tls_private_key_file_path,
        )
        tls = TlsOptions(
            trust_certs_file_path=tls_trust_certs_file_path,
            allow_insecure_connection=tls_allow_insecure_connection,
            validate_hostname=tls_validate_hostname,
            certificate_file_path=certificate[0],
            private_key_file_path=certificate[1],
        )
        self.settings = ConnectionSettings(
            authentication=authentication,
            client_version=_client_version(),
            tls=tls.context() if self._service_url.addresses[0].tls else None,
            tcp_no_delay=tcp_no_delay,
            connection_timeout_s=connection_timeout_ms / 1000,
            operation_timeout_s=operation_timeout_seconds,
            keep_alive_interval_s=keep_alive_interval_seconds,
            connections_per_broker=connections_per_broker,
            connection_max_idle_s=connection_max_idle_seconds,
            concurrent_lookup_requests=concurrent_lookup_requests,
            listener_name=listener_name,
            initial_backoff_ms=initial_backoff_ms,
            max_backoff_ms=max_backoff_ms,
        )
        """How it connects."""
        self.stats_interval_s = stats_interval_in_seconds
        """How often consumers and producers log their statistics, 0 = never."""
        self.logger = logger or logging.getLogger("vela")
        """Where they do."""
        self.pool = ConnectionPool(self.settings)
        """Its connections."""
        self._lookups = LookupService(self._service_url, self.pool, self.settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consumer_ids = itertools.count()
        self._producer_ids = itertools.count()
        self._made: dict[Closes, None] = {}  # in order, what `close` closes
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self.require_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """`close` was called."""
        return self._is_closed

    # --- what is for users

    async def get_topic_partitions(self, topic: str) -> list[str]:
        """The names of a topic's partitions; of a topic without partitions, its own.

        Raises InvalidTopicName, Timeout and what the broker refuses with.
        """
        name = full_name(topic)
        count = await self.partitions(name)
        return [partition_name(name, index) for index in range(count)] or [name]

    async def get_schema(self, topic: str, version: bytes | None = None) -> replies.SchemaFound:
        """A topic's schema: the latest, or that of `version`. Raises TopicNotFound when it has none."""
        self.require_open()
        return await self._lookups.schema(full_name(topic), version=version)

    async def close(self) -> None:
        """Closes all producers, consumers and connections; afterwards all calls raise AlreadyClosed.

        May be called twice. An error in closing one of them is logged, and the others are closed all the same.
        """
        self._is_closed = True
        made, self._made = list(self._made), {}
        for outcome in await asyncio.gather(*(each.close() for each in made), return_exceptions=True):
            if isinstance(outcome, Exception):
                self.logger.warning("at the close of the client: %r", outcome)
        await self.pool.close()

    # --- what is for its consumers, producers and readers

    async def connection_for(self, topic: str) -> Connection:
        """A connection to who serves a topic (its full name); one attempt. `release` it when it is not needed."""
        self.require_open()
        target: Target = await self._lookups.locate(topic)
        return await self.pool.get(target)

    def release(self, connection: Connection) -> None:
        """See `ConnectionPool.release`."""
        self.pool.release(connection)

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """How many partitions a topic (its full name) has, 0 = not partitioned; `create` lets the broker make it."""
        self.require_open()
        return await self._lookups.partitions(topic, create=create)

    async def get_topics_of_namespace(
        self,
        namespace: str,
        *,
        mode: TopicsMode = TopicsMode.PERSISTENT,
        pattern: str | None = None,
        known_hash: str | None = None,
    ) -> replies.TopicsOfNamespace:
        """The topics of "tenant/namespace", partitions one by one.

        `pattern` is a wish, filter them again; with the `known_hash` of a list that has not changed none are sent.
        """
        self.require_open()
        return await self._lookups.topics_of_namespace(
            namespace, mode=mode, pattern=pattern, known_hash=known_hash
        )

    async def get_or_create_schema(self, topic: str, schema: Schema) -> bytes:
        """The version of a schema of a topic, which is stored when it is new. Raises IncompatibleSchema."""
        self.require_open()
        return await self._lookups.schema_version(full_name(topic), schema)

    def new_consumer_id(self) -> int:
        """A number no other consumer of this client has."""
        return next(self._consumer_ids)

    def new_producer_id(self) -> int:
        """A number no other producer of this client has."""
        return next(self._producer_ids)

    def keep(self, made: Closes) -> None:
        """`close` will close it."""
        self._made[made] = None

    def forget(self, made: Closes) -> None:
        """It is closed."""
        self._made.pop(made, None)

    def require_open(self) -> None:
        """Raises AlreadyClosed after `close`, InvalidConfiguration on another event loop than the first."""
        if self._is_closed:
            raise AlreadyClosed("the client is closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise InvalidConfiguration("a client of vela.aio works on the event loop it was first used on")


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise InvalidConfiguration(f"{name} must be greater than 0, not {value}")


def _client_version() -> str:
    try:
        return f"Vela-Python-v{metadata.version('vela')}"
    except metadata.PackageNotFoundError:  # used from a checkout
        return "Vela-Python"
