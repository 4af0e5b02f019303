"""`Producer`: what an application publishes with, whether its topic has partitions or not."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from vela.aio.own_loop import require_loop
from vela.aio.producers.send_answers import SendFuture
from vela.core.argument_checks import require_strings, require_text
from vela.core.producing.outgoing import NO_PROPERTIES, REPLICATE_NOWHERE, Outgoing
from vela.core.producing.statistics import ProducerStatistics
from vela.errors import InvalidConfiguration
from vela.message import MessageId
from vela.schema.base import Schema
from vela.schema.primitive import BytesSchema

__all__ = ["Producer"]


class Producer(ABC):
    """Publishes on one topic. Made by `Client.create_producer`; used on the client's event loop.

    A message is answered exactly once: with its id, which means that it is stored, or with an error. After Timeout, and
    where a connection broke, it may be stored all the same; with deduplication on the topic, sending it again with its
    sequence id stores it once. Messages of a partition leave, and are answered, in the order of the calls (with
    key-based batches, those of a key); only what is refused before it is sent is answered at once.
    """

    def __init__(self, topic: str, schema: Schema[Any]) -> None:
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._encode = None if type(schema) is BytesSchema else schema.encode  # None: bytes pass as they are

    def topic(self) -> str:
        """The topic's full name."""
        return self._topic

    @abstractmethod
    def producer_name(self) -> str:
        """Its name: the one given, or the one that the broker made, which it keeps over reconnects."""

    @abstractmethod
    def last_sequence_id(self) -> int:
        """The highest sequence id with a receipt, also of an earlier producer of this name; -1 = none."""

    @abstractmethod
    def is_connected(self) -> bool:
        """Whether what is sent now leaves at once; otherwise it waits for the connection to come back."""

    @abstractmethod
    def statistics(self) -> ProducerStatistics:
        """What it has done so far."""

    async def send(
        self,
        content: Any,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | bytes | None = None,
        sequence_id: int | None = None,
        replication_clusters: Sequence[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> MessageId:
        """Publishes a message and waits until it is stored; arguments and errors as `send_async`.

        Cancelling gives up the wait, not the message: unless it was still waiting for room in the queue, it goes out.
        """
        try:
            return await self.send_async(
                content,
                properties,
                partition_key,
                ordering_key,
                sequence_id,
                replication_clusters,
                disable_replication,
                event_timestamp,
                deliver_at,
                deliver_after,
            )
        except RuntimeError:
            require_loop(self._loop)
            raise

    def send_async(
        self,
        content: Any,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | bytes | None = None,
        sequence_id: int | None = None,
        replication_clusters: Sequence[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> SendFuture:
        """Publishes a message; the future gives its id once it is stored.

        content: what the producer's schema takes, bytes without one; None = a null value (a tombstone for its key).
        partition_key: decides the partition, and Key_Shared's consumer unless `ordering_key` is given; "" = none.
        sequence_id: from 0, normally ascending; by default the producer counts.
        replication_clusters, disable_replication: noted in the message; a single Vela replicates nothing.
        event_timestamp: ms since 1970, the application's own.
        deliver_at (ms since 1970), deliver_after: not before then, on Shared and Key_Shared subscriptions. Such a
            message is never in a batch.

        The future fails with ProducerQueueIsFull when `max_pending_messages` wait for their receipt; with
        `block_if_queue_full` the message waits in line instead: await the future, or `send`, to be slowed down, or the
        line grows. Others: Timeout, MessageTooBig, ChecksumError, CryptoError, TopicTerminated, ProducerFenced,
        NotAllowedError, AlreadyClosed. A wrong argument raises InvalidConfiguration here, content that the schema does
        not take what the schema raises: TypeError or ValueError.
        """
        future: SendFuture = self._loop.create_future()
        try:
            if (
                self._encode is None
                and properties is None
                and partition_key is None
                and ordering_key is None
                and sequence_id is None
                and event_timestamp is None
                and deliver_at is None
                and deliver_after is None
                and replication_clusters is None
                and not disable_replication
                and type(content) is bytes
            ):
                self._send_plain(content, future)
                return future
            message = self.prepare(
                content,
                properties,
                partition_key,
                ordering_key,
                sequence_id,
                replication_clusters,
                disable_replication,
                event_timestamp,
                deliver_at,
                deliver_after,
            )
            self.send_outgoing(message, future)
        except RuntimeError:
            require_loop(self._loop)
            raise
        return future

    def prepare(
        self,
        content: Any,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | bytes | None = None,
        sequence_id: int | None = None,
        replication_clusters: Sequence[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> Outgoing:
        """A message for `send_outgoing`, checked and encoded. For the client's own use, on any thread.

        Arguments are those of `send_async`. Raises InvalidConfiguration for wrong ones, and what the schema raises.
        """
        if content is None:
            payload = b""
        else:
            payload = content if self._encode is None else self._encode(content)
            if not isinstance(payload, bytes):
                raise TypeError(f"the content must be bytes, not {type(payload).__name__}: use a schema")
        if deliver_after is not None:
            deliver_at = _in(deliver_after)
        clusters: tuple[str, ...] = ()
        if disable_replication:
            clusters = REPLICATE_NOWHERE
        elif replication_clusters:
            clusters = _clusters(replication_clusters)
        return Outgoing(
            payload,
            _properties(properties) if properties else NO_PROPERTIES,
            _text(partition_key, "partition_key") if partition_key else None,
            False,
            _ordering_key(ordering_key),
            None if sequence_id is None else _whole(sequence_id, "sequence_id"),
            0 if event_timestamp is None else _whole(event_timestamp, "event_timestamp"),
            None if deliver_at is None else _whole(deliver_at, "deliver_at"),
            clusters,
            content is None,
        )

    @abstractmethod
    def _send_plain(self, payload: bytes, future: SendFuture) -> None:
        """A message that is a payload and nothing else."""

    @abstractmethod
    def send_outgoing(self, message: Outgoing, future: SendFuture) -> None:
        """A message that is checked and encoded already; for the client's own use (letters)."""

    @abstractmethod
    async def flush(self) -> None:
        """Sends what is gathered in batches and waits until all that was sent before has its answer.

        Raises the first error among those answers; each message's own future has it too. AlreadyClosed after `close`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Waits for what was sent, as `flush` but no longer than the operation timeout, then closes.

        What is not answered by then fails with AlreadyClosed. May be called twice; cancelling gives up the wait only.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidConfiguration(f"{name} takes strings, not {value!r}")
    require_text(name, value)  # before the message joins others
    return value


def _properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    require_strings("properties", properties)
    return dict(properties)


def _clusters(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidConfiguration(f"replication_clusters is a list of names, not {names!r}")
    return tuple(_text(name, "replication_clusters") for name in names)


def _ordering_key(key: str | bytes | None) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    return _text(key, "ordering_key").encode()


def _in(delay: timedelta) -> int:
    """ms since 1970."""
    if not isinstance(delay, timedelta):
        raise InvalidConfiguration(f"deliver_after is a datetime.timedelta, not {delay!r}")
    due_ms = int(time.time() * 1000 + delay.total_seconds() * 1000)
    if due_ms < 0:
        raise InvalidConfiguration(f"deliver_after goes back to before 1970: {delay}")
    return due_ms


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidConfiguration(f"{name} is a whole number, not {value!r}")
    if not 0 <= value < 1 << 63:
        raise InvalidConfiguration(f"{name} must lie within 0 and 2^63 - 1, not {value}")
    return value
