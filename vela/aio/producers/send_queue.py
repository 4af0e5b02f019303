"""The unanswered messages of one producer: in line, in a batch, or sent and waiting for a receipt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from vela.aio.own_loop import require_loop
from vela.aio.producers.flushes import Flush, Flushes
from vela.aio.producers.send_answers import SendFuture, answer
from vela.core.producing.batching import Batching, Gathering, SequenceIds
from vela.core.producing.chunks import ChunkingImpossible
from vela.core.producing.key_batching import KeyBatching
from vela.core.producing.options import ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.pending_sends import PendingSend, PendingSends
from vela.core.producing.send_frames import PayloadTooLarge, ProducerIdentity, SendFrames
from vela.core.producing.statistics import ProducerCounters
from vela.core.topic_name import partition_index
from vela.errors import (
    InvalidConfiguration,
    MessageTooBig,
    ProducerQueueIsFull,
    Timeout,
    UnknownError,
    VelaError,
)
from vela.options import BatchingType
from vela.wire.compression import Compression

__all__ = ["SendQueue"]

logger = logging.getLogger(__name__)

# A message, or a flush that waits behind earlier messages.
_InLine = tuple[Outgoing, SendFuture] | Flush
_UNLIMITED = 1 << 60


class SendQueue:
    """The send queue of one producer.

    A message waits in line while there is no room, or until the broker has opened the producer (`attach`). Then it
    goes, alone or in a batch, to `PendingSends`, and is sent at once if there is a connection. Pending sends are
    repeated, in order, over the next connection. A message occupies room from the time it leaves the line until its
    answer.
    """

    def __init__(self, topic: str, producer_id: int, options: ProducerOptions) -> None:
        self._topic = topic
        self._partition = partition_index(topic)
        self._producer_id = producer_id
        self._options = options
        self._loop = asyncio.get_running_loop()
        self.counters = ProducerCounters()
        """The counters behind the producer's statistics."""
        self.last_sequence_id = -1 if options.initial_sequence_id is None else options.initial_sequence_id
        """The highest sequence id with a receipt; before that, `initial_sequence_id` or the last one stored."""
        self.error: VelaError | None = None
        """Why the queue refuses messages; None = it takes them. Set it to refuse."""
        self._ids = SequenceIds(self.last_sequence_id + 1)
        self._frames: SendFrames[SendFuture] | None = None  # None: not attached yet
        self._write: Callable[[bytes, bytes], None] | None = None  # None: not connected
        self._gathering: Gathering[SendFuture] | None = None
        # the same as `_gathering`, if it can take plain payloads
        self._plain: Batching[SendFuture] | None = None
        self._pending: PendingSends[SendFuture] = PendingSends()
        self._used = 0  # messages that occupy room
        self._limit = options.max_pending_messages or _UNLIMITED
        self._line: deque[_InLine] = deque()
        self._messages_in_line = 0
        self._line_moves = False
        self._pushed = 0  # number of sends so far
        self._flushes = Flushes()
        self._batch_timer: asyncio.TimerHandle | None = None
        self._batch_delay_s = options.batching_max_publish_delay_ms / 1000
        self._timeout_timer: asyncio.TimerHandle | None = None

    @property
    def is_known(self) -> bool:
        """Return whether the producer has been attached."""
        return self._frames is not None

    @property
    def waiting(self) -> int:
        """Return the number of messages without an answer."""
        return self._used + self._messages_in_line

    # --- the connection

    def attach(
        self, write: Callable[[bytes, bytes], None], identity: ProducerIdentity, last_sequence_id: int
    ) -> None:
        """Send pending and later messages over `write`. `last_sequence_id` comes from the broker."""
        if self._frames is None:
            if self._options.initial_sequence_id is None:
                self.last_sequence_id = last_sequence_id
                self._ids.next = last_sequence_id + 1
            self._frames = SendFrames(
                producer_id=self._producer_id,
                identity=identity,
                compression=Compression(self._options.compression_type),
                encrypt=self._options.encrypt,
                chunking=self._options.chunking_enabled,
                send_timeout_ms=self._options.send_timeout_millis,
            )
            self._make_gathering(identity.max_message_bytes)
        self._frames.identity = identity
        self._write = write
        for send in self._pending:
            write(*send.frame)
        self._move_line()

    def detach(self) -> None:
        """Let messages wait for the next connection."""
        self._write = None

    def _make_gathering(self, max_message_bytes: int) -> None:
        limits = self._options.batch_limits()
        if limits is None:
            return
        # Half of the broker's limit leaves room for the metadata of the last message in the batch.
        limits = replace(limits, max_bytes=min(limits.max_bytes, max_message_bytes // 2))
        if self._options.batching_type is BatchingType.KeyBased:
            self._gathering = KeyBatching(limits, self._ids)
        else:
            self._gathering = self._plain = Batching(limits, self._ids)

    # --- taking messages

    def put_plain(self, payload: bytes, future: SendFuture) -> None:
        """Do the same as `put`, faster, for a message that has only a payload."""
        plain = self._plain
        if plain is None or self._line or self.error is not None or self._used >= self._limit:
            self.put(Outgoing(payload), future)
            return
        self._used += 1
        full = plain.add_plain(payload, future)
        if full is None:
            self.seal()
            full = plain.add_plain(payload, future)
        if full:
            self.seal()
        elif self._batch_timer is None:
            self._batch_timer = self._loop.call_later(self._batch_delay_s, self.seal)

    def put(self, message: Outgoing, future: SendFuture) -> None:
        """Take a message, put it in line, or fail its future."""
        if self.error is not None:
            self._refuse(future, self.error)
        elif self._frames is not None and not self._line and self._used < self._limit:
            self._take(self._frames, message, future)
        elif self._options.block_if_queue_full or self.waiting < self._limit:
            self._line.append((message, future))
            self._messages_in_line += 1
            self.seal()  # no message can join the batch, so send it and make room
        else:
            self.seal()
            self._refuse(
                future,
                ProducerQueueIsFull(
                    f"{self._limit} messages of {self._topic} wait for their receipts: await some, or create the "
                    "producer with block_if_queue_full=True or a larger max_pending_messages"
                ),
            )

    def _take(self, frames: SendFrames[SendFuture], message: Outgoing, future: SendFuture) -> None:
        self._used += 1
        gathering = self._gathering
        if gathering is not None and message.batches():
            if not gathering.fits(message):
                self.seal()
            if gathering.add(message, future):
                self.seal()
            elif self._batch_timer is None:
                self._batch_timer = self._loop.call_later(self._batch_delay_s, self.seal)
            return
        self.seal()
        sequence_id = self._ids.take(message.sequence_id)
        try:
            sends = frames.single(
                message, sequence_id, future, publish_time_ms=_wall_ms(), now_ms=self._now_ms()
            )
        except Exception as error:
            self._give_up((future,), _failure(error))
            return
        for send in sends:
            self._push(send)

    def seal(self) -> None:
        """Send the current batch, or with key-based batches, all of them."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._gathering is None or self._frames is None or not self._gathering.messages:
            return
        for batch in self._gathering.take():
            try:
                send = self._frames.batch(batch, publish_time_ms=_wall_ms(), now_ms=self._now_ms())
            except Exception as error:
                self._give_up(batch.tokens, _failure(error))
                continue
            self._push(send)

    def _push(self, send: PendingSend[SendFuture]) -> None:
        self._pending.push(send)
        self._pushed += 1
        if self._write is not None:
            self._write(*send.frame)
        if self._timeout_timer is None:
            self._watch_timeout()

    def _move_line(self) -> None:
        """Take messages from the line while there is room. A nested call does nothing, to keep the order."""
        if self._line_moves or self._frames is None:
            return
        self._line_moves = True
        try:
            while self._line and self._move_first(self._frames, self._line[0]):
                pass
        finally:
            self._line_moves = False

    def _move_first(self, frames: SendFrames[SendFuture], first: _InLine) -> bool:
        """Take the first message of the line. Return False if there is no room."""
        if isinstance(first, Flush):
            self._line.popleft()
            self._place_flush(first)
            return True
        is_cancelled = first[1].done()
        if not is_cancelled and self._used >= self._limit:
            self.seal()  # no message can join the batch
            return self._used < self._limit  # a batch that fails makes room at once
        self._line.popleft()
        self._messages_in_line -= 1
        if not is_cancelled:
            self._take(frames, *first)
        return True

    # --- answers

    def receipt(self, sequence_id: int, ledger_id: int, entry_id: int) -> None:
        """Answer the messages of an entry that is stored. Raises UnexpectedReceipt, which changes nothing."""
        send = self._pending.take_receipt(sequence_id)
        if send is None:
            logger.debug(
                "%s: ignored a receipt for message %s, which is not pending", self._topic, sequence_id
            )
            return
        messages = len(send.tokens)
        self.counters.stored(messages, send.payload_bytes, self._now_ms() - send.sent_ms)
        if send.last_sequence_id > self.last_sequence_id:
            self.last_sequence_id = send.last_sequence_id
        answer(send, ledger_id, entry_id, topic=self._topic, partition=self._partition)
        self._settled(messages)

    def refused(self, sequence_id: int, error: VelaError) -> None:
        """Fail the messages of an entry that the broker refused. Raises UnexpectedReceipt, which changes nothing."""
        for send in self._pending.take_refused(sequence_id):
            self._give_up(send.tokens, error, was_sent=True)

    def _settled(self, messages: int) -> None:
        """Release the room of messages that were answered."""
        self._used -= messages
        if self._flushes:
            self._flushes.answered(self._pushed - len(self._pending))
        if self._line:
            self._move_line()

    def _give_up(self, futures: Iterable[SendFuture], error: VelaError, *, was_sent: bool = False) -> None:
        """Fail messages that were taken."""
        count = 0
        for future in futures:
            count += 1
            if not future.done():
                future.set_exception(error)
        self.counters.failed += count
        # Even without futures: a chunk has none if it is not the last of its message.
        self._flushes.failed(error, was_sent=was_sent)
        self._settled(count)

    def _refuse(self, future: SendFuture, error: VelaError) -> None:
        """Fail a message that was not taken."""
        self.counters.failed += 1
        future.set_exception(error)

    def fail(self, error: VelaError) -> None:
        """Fail all waiting messages, in order: pending sends, the current batch, the line."""
        line, self._line = self._line, deque()  # first, so that failures below do not move the line
        self._messages_in_line = 0
        for send in self._pending.take_all():
            self._give_up(send.tokens, error, was_sent=True)
        if self._gathering is not None:
            for batch in self._gathering.take():
                self._give_up(batch.tokens, error)
        for waiting in line:
            if isinstance(waiting, Flush):
                waiting.error = waiting.error or error
                self._place_flush(waiting)
            elif not waiting[1].done():
                self._refuse(waiting[1], error)
        for timer in (self._timeout_timer, self._batch_timer):
            if timer is not None:
                timer.cancel()
        self._timeout_timer = self._batch_timer = None

    # --- timeouts and flushes

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
        error = Timeout(f"no receipt within {timeout_s:g} s; the message may have been stored")
        for send in self._pending.take_due(self._now_ms()):
            self._give_up(send.tokens, error, was_sent=True)
        self._watch_timeout()

    async def flush(self) -> None:
        """Wait until all earlier messages have their answers. Raises the first error among them."""
        require_loop(self._loop)
        flush = self._flushes.begin(self._loop.create_future())
        if self._line:
            self._line.append(flush)
            self.seal()
        else:
            self._place_flush(flush)
        await flush.done

    def _place_flush(self, flush: Flush) -> None:
        """Send the current batch, and let the flush wait for all sends so far."""
        self.seal()
        flush.sends = self._pushed
        self._flushes.answered(self._pushed - len(self._pending))


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _failure(error: Exception) -> VelaError:
    """Return the error for a message that cannot be encoded."""
    if isinstance(error, VelaError):
        return error
    if isinstance(error, PayloadTooLarge | ChunkingImpossible):
        return MessageTooBig(str(error))
    kind = InvalidConfiguration if isinstance(error, TypeError | ValueError) else UnknownError
    failure = kind(f"the message cannot be encoded: {error!r}")
    failure.__cause__ = error
    return failure
