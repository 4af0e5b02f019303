"""The producer of one topic or one partition."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from vela.aio.attachment import Attachment
from vela.aio.deadline import Deadline
from vela.aio.own_loop import require_loop
from vela.aio.producers.producer import Producer
from vela.aio.producers.send_answers import SendFuture
from vela.aio.producers.send_queue import SendQueue
from vela.core.producing.options import ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.pending_sends import UnexpectedReceipt
from vela.core.producing.send_frames import ProducerIdentity
from vela.core.producing.statistics import ProducerCounters, ProducerStatistics
from vela.errors import (
    AlreadyClosed,
    ProducerBlockedQuotaExceededException,
    ReadError,
    Timeout,
    UnknownError,
    VelaError,
    from_server_error,
)
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import AccessMode, ServerError

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.connections.connection import Connection

__all__ = ["TopicProducer"]

logger = logging.getLogger(__name__)

_ENDS_THE_MESSAGE: Final = frozenset(
    {ServerError.CHECKSUM_ERROR, ServerError.NOT_ALLOWED_ERROR, ServerError.METADATA_ERROR}
)
"""Errors that concern one message, which the broker would refuse again."""
_ENDS_THE_PRODUCER: Final = frozenset({ServerError.TOPIC_TERMINATED_ERROR, ServerError.PRODUCER_FENCED})


class TopicProducer(Producer):
    """A producer of one topic or partition. Call `open` or `start` after creating it."""

    def __init__(self, client: ClientPorts, topic: str, options: ProducerOptions) -> None:
        super().__init__(topic, options.schema)
        self._client = client
        self._options = options
        self._id = client.new_producer_id()
        self._queue = SendQueue(topic, self._id, options)
        self._attachment = Attachment(client, topic, self._attach, on_failed=self._fail)
        self._connection: Connection | None = None
        self._epoch = 0  # sent with the next PRODUCER
        self._topic_epoch: int | None = None
        self._name = options.producer_name or ""
        self._closing: asyncio.Task[None] | None = None

    def producer_name(self) -> str:
        """Return the producer's name; "" until the broker has chosen one."""
        return self._name

    def last_sequence_id(self) -> int:
        return self._queue.last_sequence_id

    def is_connected(self) -> bool:
        return self._connection is not None

    def statistics(self) -> ProducerStatistics:
        return self.counters.snapshot(self._queue.waiting)

    @property
    def counters(self) -> ProducerCounters:
        """Return the counters, to sum them over partitions."""
        return self._queue.counters

    def has_failed_to_open(self) -> bool:
        """Return whether opening failed. The producer then refuses all messages."""
        return self._queue.error is not None and not self._queue.is_known

    def _send_plain(self, payload: bytes, future: SendFuture) -> None:
        self._queue.put_plain(payload, future)

    def send_outgoing(self, message: Outgoing, future: SendFuture) -> None:
        self._queue.put(message, future)

    # --- attaching

    async def open(self) -> None:
        """Connect the producer. Raises the broker's refusals or Timeout, after all messages sent so far have failed.

        With WaitForExclusive, once the broker has queued the producer, this waits for its turn without a limit.
        """
        try:
            await self._attachment.open()
        except BaseException as error:
            if self._connection is not None:  # cancelled just after the broker had accepted the producer
                self._leave(self._connection)
            await self._attachment.close()
            self._fail(error if isinstance(error, VelaError) else AlreadyClosed("opening was cancelled"))
            raise

    def start(self) -> None:
        """Open in the background. Messages sent meanwhile wait in line."""
        task = self._loop.create_task(self.open())
        task.add_done_callback(_retrieved)

    async def _attach(self, connection: Connection) -> None:
        connection.producers[self._id] = self
        epoch, self._epoch = self._epoch, self._epoch + 1
        try:
            answer = await connection.request(
                lambda request_id: self._command(request_id, epoch),
                timeout_s=self._client.settings.operation_timeout_s,
                on_queued=self._attachment.wait_without_limit,
            )
        except BaseException as error:
            connection.producers.pop(self._id, None)
            if not isinstance(error, VelaError) or isinstance(error, Timeout):
                self._say_closed(connection)  # the broker may have opened the producer, or may still do so
            if isinstance(error, ProducerBlockedQuotaExceededException):
                self._queue.fail(error)
            raise
        if not isinstance(answer, replies.ProducerSuccess):
            raise UnknownError(f"{connection.name} answered PRODUCER with {answer}")
        if connection.is_lost or connection.producers.get(self._id) is not self:
            raise ReadError(f"the producer of {self._topic} was closed as soon as it was opened")
        self._name = answer.name
        self._topic_epoch = answer.topic_epoch
        self._connection = connection
        identity = ProducerIdentity(
            name=answer.name,
            schema_version=answer.schema_version,
            max_message_bytes=connection.max_message_bytes,
        )
        self._queue.attach(connection.write, identity, answer.last_sequence_id)

    def _command(self, request_id: int, epoch: int) -> bytes:
        options = self._options
        return commands.producer(
            self._topic,
            producer_id=self._id,
            request_id=request_id,
            name=self._name or None,
            epoch=epoch,
            access_mode=AccessMode(options.access_mode),
            user_provided_name=options.producer_name is not None,
            properties=options.properties,
            initial_subscription=options.initial_subscription_name,
            topic_epoch=self._topic_epoch,
            schema=options.schema.schema_info().to_wire(),
            encrypted=options.encrypt is not None,
        )

    def _detach(self, connection: Connection, error: VelaError | None) -> None:
        if connection is self._connection:
            self._connection = None
            self._queue.detach()
        self._attachment.lost(connection, error)

    def on_closed_by_broker(self, connection: Connection) -> None:
        """Attach again, because the topic may be moved or reloaded."""
        self._detach(connection, None)

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        """Attach again, over another connection."""
        self._detach(connection, error)

    def _leave(self, connection: Connection) -> None:
        """Close the producer on this connection without waiting, and ignore later answers."""
        self._connection = None
        self._queue.detach()
        connection.producers.pop(self._id, None)
        self._say_closed(connection)

    def _say_closed(self, connection: Connection) -> None:
        connection.write(commands.close_producer(self._id, request_id=connection.next_request_id()))

    # --- answers

    def on_receipt(self, connection: Connection, reply: replies.Receipt) -> None:
        """Answer the messages of an entry that the broker has stored."""
        if connection is not self._connection:
            return  # a receipt over an earlier connection: the send is repeated on the next one
        try:
            self._queue.receipt(reply.sequence_id, reply.ledger_id, reply.entry_id)
        except UnexpectedReceipt as error:
            self._distrust(connection, error)

    def on_send_error(self, connection: Connection, reply: replies.SendError) -> None:
        """Handle an entry that the broker refused: end the message, the producer, or only the current attachment."""
        if connection is not self._connection:
            return
        error = from_server_error(reply.code, reply.message)
        if reply.code in _ENDS_THE_PRODUCER:
            self._leave(connection)
            self._fail(error)
        elif reply.code in _ENDS_THE_MESSAGE:
            try:
                self._queue.refused(reply.sequence_id, error)
            except UnexpectedReceipt as unexpected:
                self._distrust(connection, unexpected)
        else:
            logger.warning("%s: %s; the producer reconnects", self._topic, error)
            self._leave(connection)
            if reply.code == ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION:
                self._queue.fail(error)
            self._attachment.lost(connection, error)

    def _distrust(self, connection: Connection, error: UnexpectedReceipt) -> None:
        logger.warning("%s: %s; closing %s", self._topic, error, connection.name)
        connection.abort(ReadError(f"{connection.name} was closed: {error}"))

    # --- flushing, closing, failing

    async def flush(self) -> None:
        if self._queue.error is not None:
            raise self._queue.error
        await self._queue.flush()

    async def close(self) -> None:
        if self._closing is None:
            require_loop(self._loop)
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        deadline = Deadline(self._client.settings.operation_timeout_s)
        if self._queue.error is None:
            self._queue.error = AlreadyClosed(f"the producer of {self._topic} is closed")
            if not self._client.pool.is_closed:  # without connections, no answer will come
                flushing = self._loop.create_task(self._queue.flush())
                flushing.add_done_callback(_retrieved)
                await asyncio.wait((flushing,), timeout=deadline.left_s)
        connection, self._connection = self._connection, None
        self._queue.detach()
        self._queue.fail(
            AlreadyClosed(f"the producer of {self._topic} was closed before the message was stored")
        )
        if connection is not None:
            await self._say_goodbye(connection, deadline)
        await self._attachment.close()
        self._client.forget(self)

    async def _say_goodbye(self, connection: Connection, deadline: Deadline) -> None:
        """Close the producer at the broker. After the deadline, do not wait for the answer."""
        if deadline.left_s:
            try:
                await connection.request(
                    lambda request_id: commands.close_producer(self._id, request_id=request_id),
                    timeout_s=deadline.left_s,
                )
            except VelaError as error:
                logger.debug("%s: closing the producer failed: %s", self._topic, error)
        else:
            self._say_closed(connection)
        connection.producers.pop(self._id, None)

    def _fail(self, error: VelaError) -> None:
        """Refuse later messages, and fail all waiting ones."""
        self._queue.error = self._queue.error or error
        self._connection = None
        self._queue.detach()
        self._queue.fail(error)


def _retrieved(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
