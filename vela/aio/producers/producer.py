"""`Producer`: the public interface of a producer of a topic, partitioned or not."""

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
    """A producer, created by `Client.create_producer`. Use it on the client's event loop.

    Each message gets exactly one answer: its id, which means that it is stored if the topic is persistent, or an error.
    After a lost connection, the producer sends unanswered messages again. After a Timeout, the message may have been
    stored, and you may send it again with its sequence id. In both cases, a topic with deduplication stores it only
    once. Messages of one partition, or of one key with key-based batches, are sent and answered in the order of the
    calls. Only a message that the client refuses before sending it is answered at once.
    """

    def __init__(self, topic: str, schema: Schema[Any]) -> None:
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        # None: content is bytes and is sent unchanged
        self._encode = None if type(schema) is BytesSchema else schema.encode

    def topic(self) -> str:
        """Return the topic's full name."""
        return self._topic

    @abstractmethod
    def producer_name(self) -> str:
        """Return the name that the application or the broker gave the producer. Reconnecting does not change it."""

    @abstractmethod
    def last_sequence_id(self) -> int:
        """Return the highest sequence id with a receipt; before that, `initial_sequence_id` or the last one stored."""

    @abstractmethod
    def is_connected(self) -> bool:
        """Return whether the producer is connected. While it reconnects, messages wait."""

    @abstractmethod
    def statistics(self) -> ProducerStatistics:
        """Return the producer's statistics."""

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
        """Publish a message and wait until it is stored. Arguments and errors are those of `send_async`.

        Cancelling ends the wait. The message is still sent, unless it was waiting for room or for a lazily started
        producer.
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
        """Publish a message. The future has its id once it is stored.

        content: a value for the producer's schema, or bytes without one; None = a null value (a tombstone for its key).
        partition_key: chooses the partition, and Key_Shared's consumer unless `ordering_key` is given; "" = none.
        sequence_id: from 0, normally ascending; by default the producer counts.
        replication_clusters, disable_replication: stored in the message; a single Vela does not replicate.
        event_timestamp: the application's own time, in ms since 1970.
        deliver_at (ms since 1970), deliver_after: deliver no earlier, on Shared and Key_Shared subscriptions. Such a
            message is never in a batch.

        The future fails with ProducerQueueIsFull if `max_pending_messages` wait for their receipts. With
        `block_if_queue_full` the message waits for room instead: await the future, or use `send`, so that the number of
        waiting messages does not grow. Other errors: Timeout, MessageTooBig, ChecksumError, CryptoError,
        TopicTerminated, ProducerFenced, NotAllowedError, ProducerBlockedQuotaExceededException, AlreadyClosed. The call
        itself raises InvalidConfiguration for a wrong argument, and the schema's TypeError or ValueError for content
        that the schema does not accept.
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
        """Check and encode a message for `send_outgoing`. For the client's own use, on any thread.

        Arguments are those of `send_async`. Raises InvalidConfiguration if one is wrong, and the schema's errors.
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
        """Send a message that has only a payload."""

    @abstractmethod
    def send_outgoing(self, message: Outgoing, future: SendFuture) -> None:
        """Send a message that is already checked and encoded. For the client's own use."""

    @abstractmethod
    async def flush(self) -> None:
        """Send incomplete batches, and wait until every message sent so far has its answer.

        Raises the first error among the answers that come during the call, which the message's own future also has, and
        AlreadyClosed after `close`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Wait for the answers as `flush` does, but at most for the operation timeout, then close.

        Messages without an answer fail with AlreadyClosed. Safe to repeat. Cancelling ends only the wait.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidConfiguration(f"{name} must be a string, not {value!r}")
    require_text(name, value)  # check now: later it would fail a whole batch
    return value


def _properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    require_strings("properties", properties)
    return dict(properties)


def _clusters(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidConfiguration(f"replication_clusters must be a list of names, not {names!r}")
    return tuple(_text(name, "replication_clusters") for name in names)


def _ordering_key(key: str | bytes | None) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    return _text(key, "ordering_key").encode()


def _in(delay: timedelta) -> int:
    """Return the time after `delay`, in ms since 1970."""
    if not isinstance(delay, timedelta):
        raise InvalidConfiguration(f"deliver_after must be a datetime.timedelta, not {delay!r}")
    due_ms = int(time.time() * 1000 + delay.total_seconds() * 1000)
    if due_ms < 0:
        raise InvalidConfiguration(f"deliver_after leads to a time before 1970: {delay}")
    return due_ms


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidConfiguration(f"{name} must be a whole number, not {value!r}")
    if not 0 <= value < 1 << 63:
        raise InvalidConfiguration(f"{name} must be from 0 to 2^63 - 1, not {value}")
    return value
