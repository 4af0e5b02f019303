"""Look up topics, partitions and schemas at any broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from vela import errors
from vela.aio.connections.connection import Connection
from vela.aio.connections.pool import ConnectionPool, Target
from vela.aio.connections.settings import ConnectionSettings
from vela.core.backoff import Backoff
from vela.core.service_url import ServiceUrl, parse_broker_url
from vela.errors import (
    ConnectError,
    ReadError,
    ServiceUnitNotReady,
    Timeout,
    TooManyLookupRequestException,
    UnknownError,
    VelaError,
)
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import TopicsMode
from vela.wire.binary.schema import Schema

__all__ = ["LookupService"]

_MAX_REDIRECTS: Final = 20
A = TypeVar("A", bound=replies.Answer)
T = TypeVar("T")


class LookupService:
    """The lookups of one client. `locate` tries once; the other methods try until the operation timeout."""

    def __init__(self, service_url: ServiceUrl, pool: ConnectionPool, settings: ConnectionSettings) -> None:
        self._addresses = service_url.addresses
        self._at = random.randrange(len(self._addresses))  # noqa: S311 - spreading load, no secret
        self._pool = pool
        self._settings = settings

    async def locate(self, topic: str) -> Target:
        """Return the broker that serves a topic (full name), following redirections.

        Raises LookupError, TooManyLookupRequestException, and the errors of `ConnectionPool.get` and
        `Connection.request`.
        """
        target, connection = await self._service_connection()
        service, authoritative = target, False
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                answer = await self._ask(
                    connection, replies.Located, _lookup(topic, authoritative, self._settings)
                )
            except ServiceUnitNotReady:
                self._ask_another_than(service)
                raise
            if not answer.redirect:
                return self._target(answer, target)
            target = self._target(answer, target)
            authoritative = answer.authoritative
            connection = await self._pool.get(target)
        raise errors.LookupError(f"the brokers redirect lookups of {topic} in a circle")

    def _target(self, answer: replies.Located, asked: Target) -> Target:
        address = asked.address
        if address.websocket_path is not None:
            # The answer names a TCP address. Over WebSocket the broker at the other end serves every topic.
            if answer.redirect:
                raise errors.LookupError(
                    f"{address.url} redirects to {answer.url}, which is not a WebSocket address"
                )
            return asked
        url = answer.url_tls if address.tls else answer.url
        if answer.proxy_through_service_url:
            url = url or answer.url  # the proxy decides how to reach the broker
        found = None if url is None else parse_broker_url(url)
        if found is None or (found.tls is not address.tls and not answer.proxy_through_service_url):
            wanted = "an encrypted" if address.tls else "a plain"
            named = " and ".join(filter(None, (answer.url, answer.url_tls))) or "none"
            raise errors.LookupError(
                f"{address.url} does not name {wanted} address of the broker; it names {named}"
            )
        if not answer.proxy_through_service_url:
            return Target(found)
        return Target(address, None if str(found) == str(address) else str(found))

    async def partitions(self, topic: str, *, create: bool) -> int:
        """Return how many partitions a topic (full name) has, 0 = not partitioned.

        `create` lets the broker create the topic. Raises TopicNotFound, InvalidTopicName, Timeout and other refusals.
        """
        answer = await self._retried(
            replies.Partitions,
            lambda request_id: commands.partition_metadata(topic, request_id=request_id, create=create),
        )
        return answer.partitions

    async def topics_of_namespace(
        self, namespace: str, *, mode: TopicsMode, pattern: str | None, known_hash: str | None
    ) -> replies.TopicsOfNamespace:
        """Return the topics of "tenant/namespace", each partition by its own name."""
        return await self._retried(
            replies.TopicsOfNamespace,
            lambda request_id: commands.get_topics_of_namespace(
                namespace, request_id=request_id, mode=mode, pattern=pattern, known_hash=known_hash
            ),
        )

    async def schema(self, topic: str, *, version: bytes | None) -> replies.SchemaFound:
        """Return a topic's schema: the latest, or the one with `version`.

        Raises TopicNotFound if the topic has no such schema.
        """
        return await self._retried(
            replies.SchemaFound,
            lambda request_id: commands.get_schema(topic, request_id=request_id, version=version),
        )

    async def schema_version(self, topic: str, schema: Schema) -> bytes:
        """Return the version of a schema, and store the schema if it is new. Raises IncompatibleSchema."""
        answer = await self._retried(
            replies.SchemaVersion,
            lambda request_id: commands.get_or_create_schema(topic, request_id=request_id, schema=schema),
        )
        return answer.version

    async def _retried(self, kind: type[A], build: Callable[[int], bytes]) -> A:
        async def ask() -> A:
            target, connection = await self._service_connection()
            try:
                return await self._ask(connection, kind, build)
            except ServiceUnitNotReady:
                self._ask_another_than(target)
                raise

        return await retried(ask, self._settings, self._pool.under_way)

    async def _ask(self, connection: Connection, kind: type[A], build: Callable[[int], bytes]) -> A:
        if connection.pending_lookups >= self._settings.concurrent_lookup_requests:
            raise TooManyLookupRequestException(
                f"{connection.pending_lookups} lookups wait for their answers: raise concurrent_lookup_requests"
            )
        connection.pending_lookups += 1
        try:
            answer = await connection.request(build, timeout_s=self._settings.operation_timeout_s)
        finally:
            connection.pending_lookups -= 1
            self._pool.release(connection)
        if not isinstance(answer, kind):
            raise UnknownError(f"{connection.name} answered {kind.__name__} with {answer}")
        return answer

    async def _service_connection(self) -> tuple[Target, Connection]:
        """Connect to a host of the service URL: the one that worked last, else the next ones."""
        failure: VelaError | None = None
        for _ in self._addresses:
            target = Target(self._addresses[self._at])
            try:
                return target, await self._pool.get(target)
            except (ConnectError, ReadError) as error:
                failure = error
                self._ask_another_than(target)
        assert failure is not None  # there is at least one address
        raise failure

    def _ask_another_than(self, target: Target) -> None:
        # If several calls fail with the same host at the same time, only one of them moves to the next host.
        if self._addresses[self._at] == target.address:
            self._at = (self._at + 1) % len(self._addresses)


def _lookup(topic: str, authoritative: bool, settings: ConnectionSettings) -> Callable[[int], bytes]:
    return lambda request_id: commands.lookup(
        topic, request_id=request_id, authoritative=authoritative, listener_name=settings.listener_name
    )


async def retried(
    attempt: Callable[[], Awaitable[T]],
    settings: ConnectionSettings,
    under_way: Callable[[], str],
    deadline: asyncio.Timeout | None = None,
) -> T:
    """Repeat `attempt` until it succeeds, fails with an error that is not retriable, or time is up (Timeout).

    `deadline` None = the operation timeout. If the first attempt is still running then, `under_way` describes it for
    the error.
    """
    backoff = Backoff(initial_ms=settings.initial_backoff_ms, max_ms=settings.max_backoff_ms)
    last: VelaError | None = None
    try:
        async with deadline or asyncio.timeout(settings.operation_timeout_s):
            while True:
                try:
                    return await attempt()
                except VelaError as error:
                    if not error.retriable:
                        raise
                    last = error
                await asyncio.sleep(backoff.next_ms(random.random()) / 1000)  # noqa: S311
    except TimeoutError:
        said = under_way() or "no answer came" if last is None else f"the last failure: {last}"
        raise Timeout(f"given up after {settings.operation_timeout_s:g} s; {said}") from last
