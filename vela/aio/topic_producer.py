"""The producer of one topic or one partition."""

# Over 400 lines: one state machine. Taking a message, its batch, its way over connections and its answer read and
# write the same few fields; cutting it would spread them over classes that know each other's inside.

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vela.aio.attachment import Attachment
from vela.aio.producer import Producer, SendFuture
from vela.core.batching import Batching, BatchLimits, Gathering, SequenceIds
from vela.core.chunks import ChunkingImpossible
from vela.core.key_batching import KeyBatching
from vela.core.outgoing import Outgoing
from vela.core.pending_sends import PendingSend, PendingSends, UnexpectedReceipt
from vela.core.producer_options import ProducerOptions
from vela.core.producer_statistics import ProducerCounters, ProducerStatistics
from vela.core.send_frames import PayloadTooLarge, ProducerIdentity, SendFrames
from vela.core.topic_name import partition_index
from vela.errors import (
    AlreadyClosed,
    CryptoError,
    MessageTooBig,
    ProducerBlockedQuotaExceededException,
    ProducerQueueIsFull,
    ReadError,
    Timeout,
    UnknownError,
    VelaError,
    from_server_error,
)
from vela.message import MessageId
from vela.options import BatchingType
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import AccessMode, ServerError
from vela.wire.compression import Compression

if TYPE_CHECKING:
    from vela.aio.client import Client
    from vela.aio.connection import Connection

__all__ = ["TopicProducer"]

log = logging.getLogger(__name__)

_ENDS_THE_MESSAGE: Final = frozenset(
    {ServerError.CHECKSUM_ERROR, ServerError.NOT_ALLOWED_ERROR, ServerError.METADATA_ERROR}
)
"""Refusals of one message, which sending it again would not mend (protocol 3.5)."""
_ENDS_THE_PRODUCER: Final = frozenset({ServerError.TOPIC_TERMINATED_ERROR, ServerError.PRODUCER_FENCED})


class TopicProducer(Producer):
    """Made, then `open`ed or `start`ed; a `ProducerSink` of the connection that it is attached to.

    A message goes from the line (while there is no room, or before the first attachment) to a batch, from there to
    `PendingSends` and at once to the connection, if there is one; what pends is sent again, in order, on the next
    connection. One slot of `max_pending_messages` is taken from the moment it leaves the line.
    """

    def __init__(self, client: Client, topic: str, options: ProducerOptions) -> None:
        super().__init__(topic, options.schema)
        self._client = client
        self._options = options
        self._partition = partition_index(topic)
        self._id = client.new_producer_id()
        self._attachment = Attachment(client, topic, self._attach, on_failed=self._fail)
        self._connection: Connection | None = None  # where sends go now
        self._epoch = 0  # of the next PRODUCER
        self._topic_epoch: int | None = None
        self._name = options.producer_name or ""
        self._last_sequence_id = -1 if options.initial_sequence_id is None else options.initial_sequence_id
        self._ids = SequenceIds(self._last_sequence_id + 1)
        self._frames: SendFrames[SendFuture] | None = None  # None: never attached yet
        self._gathering: Gathering[SendFuture] | None = None
        self._plain: Batching[SendFuture] | None = None  # the gathering, where it takes the short way
        self._pending: PendingSends[SendFuture] = PendingSends()
        self._used = 0  # slots: messages in batches and pending
        self._limit = options.max_pending_messages or 1 << 60
        self._line: deque[tuple[Outgoing, SendFuture] | asyncio.Future[None]] = (
            deque()
        )  # a future: a flush's place
        self._pushed = 0  # sends, ever
        self._flushers: deque[_Flusher] = deque()
        self._batch_timer: asyncio.TimerHandle | None = None
        self._batch_delay_s = options.batching_max_publish_delay_ms / 1000
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._error: VelaError | None = None  # why nothing is taken any more
        self._closing: asyncio.Task[None] | None = None
        self._counters = ProducerCounters()

    def producer_name(self) -> str:
        """See `Producer`; "" before it was attached for the first time, unless one was given."""
        return self._name

    def last_sequence_id(self) -> int:
        """See `Producer`."""
        return self._last_sequence_id

    def is_connected(self) -> bool:
        """See `Producer`."""
        return self._connection is not None

    def statistics(self) -> ProducerStatistics:
        """See `Producer`."""
        return self._counters.snapshot(self._used + len(self._line))

    @property
    def counters(self) -> ProducerCounters:
        """For sums over partitions."""
        return self._counters

    def has_failed_to_open(self) -> bool:
        """It takes nothing, and never has."""
        return self._error is not None and self._frames is None

    # --- attaching

    async def open(self) -> None:
        """Attaches; raises what the broker refuses with, or Timeout. If it raises, everything sent has failed too.

        With WaitForExclusive it waits for its turn however long that takes, once the broker knows of it.
        """
        try:
            await self._attachment.open()
        except BaseException as error:
            await self._attachment.close()
            self._fail(error if isinstance(error, VelaError) else AlreadyClosed("opening was cancelled"))
            raise

    def start(self) -> None:
        """Opens in the background; what is sent meanwhile waits in line."""
        task = self._loop.create_task(self.open())
        task.add_done_callback(_retrieved)

    async def _attach(self, connection: Connection) -> None:
        options = self._options
        wire_schema = options.schema.schema_info().to_wire()
        connection.producers[self._id] = self
        epoch, self._epoch = self._epoch, self._epoch + 1
        try:
            answer = await connection.request(
                lambda request_id: commands.producer(
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
                    schema=wire_schema,
                    encrypted=options.encrypt is not None,
                ),
                timeout_s=self._client.settings.operation_timeout_s,
                on_queued=self._attachment.wait_without_limit,
            )
        except BaseException as error:
            connection.producers.pop(self._id, None)
            if not isinstance(error, VelaError) or isinstance(error, Timeout):
                self._say_closed(connection)  # the broker may have made it, or make it yet
            if isinstance(error, ProducerBlockedQuotaExceededException):
                self._fail_all(error)
            raise
        if not isinstance(answer, replies.ProducerSuccess):
            raise UnknownError(f"{connection.name} answered PRODUCER with {answer}")
        if connection.is_lost or connection.producers.get(self._id) is not self:
            raise ReadError(f"the producer of {self._topic} was closed as soon as it was made")
        self._attached(connection, answer)

    def _attached(self, connection: Connection, answer: replies.ProducerSuccess) -> None:
        options = self._options
        self._name = answer.name
        self._topic_epoch = answer.topic_epoch
        identity = ProducerIdentity(
            name=self._name,
            schema_version=answer.schema_version,
            max_message_bytes=connection.max_message_bytes,
        )
        if self._frames is None:
            if options.initial_sequence_id is None:
                self._last_sequence_id = answer.last_sequence_id
                self._ids.next = answer.last_sequence_id + 1
            self._frames = SendFrames(
                producer_id=self._id,
                identity=identity,
                compression=Compression(options.compression_type),
                encrypt=options.encrypt,
                chunking=options.chunking_enabled,
                send_timeout_ms=options.send_timeout_millis,
            )
            self._make_gathering(options.batch_limits(), connection.max_message_bytes)
        self._frames.identity = identity
        self._connection = connection
        for send in self._pending:
            connection.write(*send.frame)
        self._move_line()

    def _make_gathering(self, limits: BatchLimits | None, max_message_bytes: int) -> None:
        if limits is None:
            return
        # Half of what the broker takes leaves room for the metadata of the last message that joins.
        limits = replace(limits, max_bytes=min(limits.max_bytes, max_message_bytes // 2))
        if self._options.batching_type is BatchingType.KeyBased:
            self._gathering = KeyBatching(limits, self._ids)
        else:
            self._gathering = self._plain = Batching(limits, self._ids)

    def _detach(self, connection: Connection, error: VelaError | None) -> None:
        if connection is self._connection:
            self._connection = None
        self._attachment.lost(connection, error)

    def on_closed_by_broker(self, connection: Connection) -> None:
        """See `ProducerSink`: the topic moves, or something is wrong with it; come again."""
        self._detach(connection, None)

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        """See `ProducerSink`."""
        self._detach(connection, error)

    def _say_closed(self, connection: Connection) -> None:
        connection.write(commands.close_producer(self._id, request_id=connection.next_request_id()))

    # --- taking messages

    def _send_plain(self, payload: bytes, future: SendFuture) -> None:
        plain = self._plain
        if plain is None or self._line or self._error is not None or self._used >= self._limit:
            self.send_outgoing(Outgoing(payload), future)
            return
        self._used += 1
        full = plain.add_plain(payload, future)
        if full is None:
            self._seal()
            full = plain.add_plain(payload, future)
        if full:
            self._seal()
        elif self._batch_timer is None:
            self._batch_timer = self._loop.call_later(self._batch_delay_s, self._seal)

    def send_outgoing(self, message: Outgoing, future: SendFuture) -> None:
        """See `Producer`."""
        if self._error is not None:
            self._refuse(future, self._error)
        elif self._frames is not None and not self._line and self._used < self._limit:
            self._take(message, future)
        elif self._options.block_if_queue_full or self._used + len(self._line) < self._limit:
            self._line.append((message, future))
            self._seal()  # nothing can join the batch: let it go and make room
        else:
            self._seal()
            self._refuse(
                future,
                ProducerQueueIsFull(
                    f"{self._limit} messages of {self._topic} await their receipt: await some, or create the producer "
                    "with block_if_queue_full=True or a larger max_pending_messages"
                ),
            )

    def _take(self, message: Outgoing, future: SendFuture) -> None:
        self._used += 1
        gathering = self._gathering
        if gathering is not None and message.batches():
            if not gathering.fits(message):
                self._seal()
            if gathering.add(message, future):
                self._seal()
            elif self._batch_timer is None:
                self._batch_timer = self._loop.call_later(self._batch_delay_s, self._seal)
            return
        self._seal()
        assert self._frames is not None
        try:
            sends = self._frames.single(
                message,
                self._ids.take(message.sequence_id),
                future,
                publish_time_ms=int(time.time() * 1000),
                now_ms=self._now_ms(),
            )
        except Exception as error:
            self._give_up((future,), _failure(error))
            return
        for send in sends:
            self._push(send)

    def _seal(self) -> VelaError | None:
        """Sends what is gathered; gives the first error of what could not be made an entry."""
        failure: VelaError | None = None
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._gathering is None or self._frames is None or not self._gathering.messages:
            return None
        for batch in self._gathering.take():
            try:
                send = self._frames.batch(
                    batch, publish_time_ms=int(time.time() * 1000), now_ms=self._now_ms()
                )
            except Exception as error:
                failure = failure or _failure(error)
                self._give_up(batch.tokens, failure)
                continue
            self._push(send)
        return failure

    def _push(self, send: PendingSend[SendFuture]) -> None:
        self._pending.push(send)
        self._pushed += 1
        if self._connection is not None:
            self._connection.write(*send.frame)
        if self._timeout_timer is None:
            self._watch_timeout()

    def _move_line(self) -> None:
        """Takes from the line what there is room for."""
        line = self._line
        while line and self._frames is not None:
            entry = line[0]
            if isinstance(entry, asyncio.Future):
                line.popleft()
                self._place_flush(entry)
            elif entry[1].done():  # given up by who waited
                line.popleft()
            elif self._used < self._limit:
                line.popleft()
                self._take(*entry)
            else:
                self._seal()
                return

    # --- answers

    def on_receipt(self, connection: Connection, reply: replies.Receipt) -> None:
        """See `ProducerSink`."""
        if connection is not self._connection:
            return  # of a connection given up: the send goes out again on the next one
        try:
            send = self._pending.take_receipt(reply.sequence_id)
        except UnexpectedReceipt as error:
            self._distrust(connection, error)
            return
        if send is None:
            log.debug("%s: a receipt of %s, which nobody awaits", self._topic, reply.sequence_id)
            return
        tokens = send.tokens
        latency_ms = self._now_ms() - send.sent_ms
        self._counters.stored(len(tokens), send.payload_bytes, latency_ms)
        if send.last_sequence_id > self._last_sequence_id:
            self._last_sequence_id = send.last_sequence_id
        if send.is_batch:
            self._answer_batch(tokens, reply.ledger_id, reply.entry_id)
        else:
            self._answer_single(send, reply)
        self._settled(len(tokens))

    def _answer_batch(self, tokens: list[SendFuture], ledger_id: int, entry_id: int) -> None:
        partition, topic, size = self._partition, self._topic, len(tokens)
        stored = ledger_id >= 0  # else a duplicate, which lies elsewhere
        for index, future in enumerate(tokens):
            if not future.done():
                batch_index = index if stored else -1
                future.set_result(
                    MessageId(partition, ledger_id, entry_id, batch_index, batch_size=size, topic=topic)
                )

    def _answer_single(self, send: PendingSend[SendFuture], reply: replies.Receipt) -> None:
        chunked = send.chunked
        message_id = MessageId(
            self._partition,
            reply.ledger_id,
            reply.entry_id,
            topic=self._topic,
            first_chunk=None if chunked is None else chunked.first,
        )
        if chunked is not None and chunked.first is None:
            chunked.first = message_id
        for future in send.tokens:
            if not future.done():
                future.set_result(message_id)

    def on_send_error(self, connection: Connection, reply: replies.SendError) -> None:
        """See `ProducerSink`: the message, the producer, or only this attachment ends, by the kind of error."""
        if connection is not self._connection:
            return
        error = from_server_error(reply.code, reply.message)
        if reply.code in _ENDS_THE_PRODUCER:
            self._leave(connection)
            self._fail(error)
        elif reply.code in _ENDS_THE_MESSAGE:
            try:
                refused = self._pending.take_refused(reply.sequence_id)
            except UnexpectedReceipt as unexpected:
                self._distrust(connection, unexpected)
                return
            for send in refused:
                self._give_up(send.tokens, error, was_sent=True)
        else:
            log.warning("%s: %s; attaching again", self._topic, error)
            if reply.code == ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION:
                self._fail_all(error)
            self._leave(connection)
            self._attachment.lost(connection, error)

    def _leave(self, connection: Connection) -> None:
        """Nothing on this connection is this producer's any more; what it still answers is not heard."""
        self._connection = None
        connection.producers.pop(self._id, None)
        self._say_closed(connection)

    def _distrust(self, connection: Connection, error: UnexpectedReceipt) -> None:
        log.warning("%s: %s; closing %s", self._topic, error, connection.name)
        connection.abort(ReadError(f"{connection.name} was closed: {error}"))

    def _settled(self, messages: int) -> None:
        """So many messages have their answer."""
        self._used -= messages
        if self._flushers:
            self._check_flushers()
        if self._line:
            self._move_line()

    def _give_up(self, futures: Iterable[SendFuture], error: VelaError, *, was_sent: bool = False) -> None:
        """These taken messages fail."""
        count = 0
        for future in futures:
            count += 1
            if not future.done():
                future.set_exception(error)
        self._counters.failed += count
        if was_sent and count:
            for flusher in self._flushers:
                flusher.error = flusher.error or error
        self._settled(count)

    def _refuse(self, future: SendFuture, error: VelaError) -> None:
        """This message, which was not taken, fails."""
        self._counters.failed += 1
        future.set_exception(error)

    # --- timeouts

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _watch_timeout(self) -> None:
        deadline_ms = self._pending.next_deadline_ms()
        if deadline_ms is None:
            self._timeout_timer = None
        else:
            self._timeout_timer = self._loop.call_at(deadline_ms / 1000, self._time_out)

    def _time_out(self) -> None:
        timeout_s = self._options.send_timeout_millis / 1000
        for send in self._pending.take_due(self._now_ms()):
            self._give_up(
                send.tokens,
                Timeout(f"no receipt within {timeout_s:g} s; the message may be stored all the same"),
                was_sent=True,
            )
        self._watch_timeout()

    # --- flushing, closing, failing

    async def flush(self) -> None:
        """See `Producer`."""
        if self._error is not None:
            raise self._error
        await self._flush()

    async def _flush(self) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        if self._line:
            self._line.append(done)
            self._seal()
        else:
            self._place_flush(done)
        await done

    def _place_flush(self, done: asyncio.Future[None]) -> None:
        failure = self._seal()
        self._flushers.append(_Flusher(self._pushed, done, failure))
        self._check_flushers()

    def _check_flushers(self) -> None:
        answered = self._pushed - len(self._pending)
        while self._flushers and self._flushers[0].sends <= answered:
            self._flushers.popleft().finish()

    async def close(self) -> None:
        """See `Producer`."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        timeout_s = self._client.settings.operation_timeout_s
        if self._error is None:
            self._seal()
            flushing = self._loop.create_task(self._flush())
            flushing.add_done_callback(_retrieved)
            self._error = AlreadyClosed(f"the producer of {self._topic} is closed")
            await asyncio.wait((flushing,), timeout=timeout_s)
        connection = self._connection
        if connection is not None:
            self._connection = None
            try:
                await connection.request(
                    lambda request_id: commands.close_producer(self._id, request_id=request_id),
                    timeout_s=timeout_s,
                )
            except VelaError as error:
                log.debug("%s: at the close of its producer: %s", self._topic, error)
            connection.producers.pop(self._id, None)
        await self._attachment.close()
        self._fail(AlreadyClosed(f"the producer of {self._topic} was closed before the message was stored"))
        self._client.forget(self)

    def _fail(self, error: VelaError) -> None:
        """Nothing more is taken, and everything taken fails."""
        if self._error is None:
            self._error = error
        self._connection = None
        self._fail_all(error)

    def _fail_all(self, error: VelaError) -> None:
        """Everything waiting fails, in order: what pends, what is gathered, what is in line."""
        line, self._line = self._line, deque()  # first: room that comes free now is not for it
        for send in self._pending.take_all():
            self._give_up(send.tokens, error, was_sent=True)
        if self._gathering is not None:
            for batch in self._gathering.take():
                self._give_up(batch.tokens, error)
        for entry in line:
            if isinstance(entry, asyncio.Future):
                _finish(entry, error)
            elif not entry[1].done():
                self._refuse(entry[1], error)
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
            self._timeout_timer = None
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None


class _Flusher:
    """Someone who waits until the first `sends` sends are answered."""

    __slots__ = ("done", "error", "sends")

    def __init__(self, sends: int, done: asyncio.Future[None], error: VelaError | None) -> None:
        self.sends = sends
        self.done = done
        self.error = error  # the first among them

    def finish(self) -> None:
        """Says so."""
        _finish(self.done, self.error)


def _finish(done: asyncio.Future[None], error: VelaError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _failure(error: Exception) -> VelaError:
    """What a message fails with when it could not be made an entry."""
    if isinstance(error, VelaError):
        return error
    if isinstance(error, PayloadTooLarge | ChunkingImpossible):
        return MessageTooBig(str(error))
    return CryptoError(f"the message could not be encrypted: {error!r}")


def _retrieved(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
