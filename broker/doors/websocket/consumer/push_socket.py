"""The base class of consumer and reader sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.errors import ServiceNotReady, TopicNotFound
from broker.core.subscription.departure import DepartureCause
from broker.core.topic_name import TopicName
from broker.doors.websocket.consumer.delivery_source import DeliverySource, Outgoing
from broker.doors.websocket.json.consumer import end_of_topic_frame, push_frame
from broker.doors.websocket.json.errors import CloseCode, InvalidCommand
from broker.doors.websocket.socket import NO_CLOSE_FRAME, PROBE_TIMEOUT_MS, BrokerSocket
from broker.subscription.requests import SubscribeRequest
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.consumer.fragment_cache import Fragment, FragmentCache
    from broker.doors.websocket.json.options import CryptoFailureAction
    from broker.doors.websocket.json.window import DeliveryWindow

__all__ = ["PushSocket"]

KNOWN_IDS: Final = 2_000
MAX_READY_BYTES: Final = 1024 * 1024
MAX_MISSES: Final = 100


class _Ready(NamedTuple):
    source: DeliverySource
    ledger_id: int
    entry_id: int
    redelivery_count: int
    fragment: Fragment


class PushSocket(BrokerSocket):
    """Pushes messages from one or more sources. A source is a topic or a partition."""

    window: DeliveryWindow

    def __init__(self, *, broker: BrokerPort, clock: Clock, fragments: FragmentCache) -> None:
        super().__init__(broker=broker, clock=clock)
        self.sources: list[DeliverySource] = []
        self.known: dict[str, MessageId] = {}
        self._fragments = fragments
        self._loop = asyncio.get_running_loop()
        self._by_ledger: dict[int, DeliverySource] = {}
        self._misses = 0
        self._frames: list[bytes] = []
        self._ready: deque[_Ready] = deque()
        self._ready_bytes = 0
        self._is_draining = False
        self._departure = DepartureCause.LOST
        self._has_left = asyncio.Event()
        self.is_growing = False  # Whether topics may be added while the socket is open
        self.is_letting_go = False

    async def subscribe(
        self,
        topics: Sequence[str],
        request: Callable[[TopicName, int], SubscribeRequest],
        crypto_failure_action: CryptoFailureAction,
    ) -> None:
        """Subscribe to each topic, or to its partitions. Raises BrokerError.

        The second argument of `request` is the topic's number of partitions.
        """
        for text in topics:
            topic = TopicName.parse(text)
            try:
                partitions = await self.broker.partition_count(topic, create=not self.is_growing)
                for name in [topic.with_partition(index) for index in range(partitions)] or [topic]:
                    await self._attach(request(name, partitions), crypto_failure_action)
            except TopicNotFound:
                if not self.is_growing:
                    raise
            else:
                await self.check_partitions(topic, partitions)

    async def _attach(self, request: SubscribeRequest, crypto_failure_action: CryptoFailureAction) -> None:
        partition = request.topic.partition
        source = DeliverySource(
            self,
            self._fragments,
            partition=-1 if partition is None else partition,
            max_message_bytes=self.broker.settings.max_uncompressed_bytes,
            crypto_failure_action=crypto_failure_action,
        )
        source.consumer = await self.broker.subscribe(request, self.identity, source)
        self.sources.append(source)

    def start(self, permits: int) -> None:
        """Begin to deliver."""
        self.transport.on_writable(self._writable_again)
        self.credit_share(self.sources, permits)

    def credit_share(self, sources: Sequence[DeliverySource], permits: int) -> None:
        """Divide `permits` by the number of the socket's sources, and grant the result to each of `sources`.

        If the socket may have several sources, grant each source at least one permit.
        """
        share = permits if self.has_one_source else max(1, permits // max(1, len(self.sources)))
        for source in sources:
            source.credit(share)

    @property
    def has_one_source(self) -> bool:
        """Whether the socket has one source and will never have more."""
        return len(self.sources) == 1 and not self.is_growing

    def push(self, source: DeliverySource, entry: Outgoing) -> None:
        """Queue the messages of an entry for writing."""
        ledger_id, entry_id, fragments, redelivery_count = entry
        self._by_ledger[ledger_id] = source
        if self.has_one_source:
            for fragment in fragments:
                self._frame(source, ledger_id, entry_id, redelivery_count, fragment)
            self.window.pushed(len(fragments))
            return
        for fragment in fragments:
            self._ready.append(_Ready(source, ledger_id, entry_id, redelivery_count, fragment))
            self._ready_bytes += len(fragment.data)

    def _frame(
        self, source: DeliverySource, ledger_id: int, entry_id: int, redelivery_count: int, fragment: Fragment
    ) -> None:
        batch_index, batch_size, data = fragment
        if source.unanswered is not None:
            source.unanswered.pushed(ledger_id, entry_id, batch_index)
        message_id = MessageId(ledger_id, entry_id, source.partition, batch_index, batch_size)
        text = message_id.to_base64()
        if len(self.known) >= KNOWN_IDS:
            self.known.clear()
        self.known[text] = message_id
        self._frames.append(push_frame(text, data, redelivery_count))

    def flush(self) -> None:
        """Start to write the queued messages."""
        if self._ready:
            self.drain_soon()
        self._write()

    def _write(self) -> None:
        if self._frames:
            frames, self._frames = self._frames, []
            self.transport.write_frames(frames, binary=False)

    def drain_soon(self) -> None:
        """In the next iteration of the event loop, write queued messages while the window has room."""
        if self._ready and not self._is_draining:
            self._is_draining = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_draining = False
        was_full = self._ready_bytes >= MAX_READY_BYTES
        while self._ready and self.window.room and self.transport.is_writable():
            source, ledger_id, entry_id, redelivery_count, fragment = self._ready.popleft()
            self._ready_bytes -= len(fragment.data)
            self._frame(source, ledger_id, entry_id, redelivery_count, fragment)
            self.window.pushed()
            source.credit(1)
            if len(self._frames) >= 100:
                self._write()
        self._write()
        if was_full and self.is_writable():
            self._resume_delivery()

    def is_writable(self) -> bool:
        return self._ready_bytes < MAX_READY_BYTES and self.transport.is_writable()

    def _writable_again(self) -> None:
        self.drain_soon()
        self._resume_delivery()

    def _resume_delivery(self) -> None:
        for source in self.sources:
            if source.consumer is not None:
                source.consumer.writable_again()

    async def answer_end_of_topic(self, questions: int) -> None:
        """Answer this many `isEndOfTopic` requests. Then wait while too many bytes are unsent."""
        self.transport.write_frames((end_of_topic_frame(self.is_end_of_topic),) * questions, binary=False)
        if not self.transport.is_writable():
            await self.transport.share.away(self.transport.drained())

    def settled(self, source: DeliverySource, messages: int) -> None:
        """Make room in the window after the peer has acked, nacked or reconsumed this many messages.

        In pull mode, only permits make room.
        """
        credit = self.window.settled(messages)
        if self.has_one_source:
            source.credit(credit)
        else:
            self.drain_soon()

    def source_of(self, message_id: MessageId) -> DeliverySource:
        """Return the source of a message. Another socket may have delivered the message.

        If no source is found for the message's ledger, return the source with the message's partition, or else the
        first source. Raises InvalidCommand if the socket has no source.
        """
        source = self._by_ledger.get(message_id.ledger_id)
        if source is not None:
            return source
        if not self.sources:
            raise InvalidCommand("no topic matches topicsPattern yet, so there is no message with this id")
        if len(self.sources) > 1 and self._misses < MAX_MISSES:
            for source in self.sources:
                if source.consumer is not None and source.consumer.has_ledger(message_id.ledger_id):
                    self._by_ledger[message_id.ledger_id] = source
                    return source
            self._misses += 1
        for source in self.sources:
            if source.partition == message_id.partition:
                return source
        return self.sources[0]

    @property
    def is_end_of_topic(self) -> bool:
        """Whether the socket has sources and all their topics have ended."""
        return bool(self.sources) and all(source.is_ended for source in self.sources)

    def source_closed(self, reason: str) -> None:
        """Close with 1012, which tells the peer to connect again."""
        if not self.is_letting_go:
            self.end(CloseCode.SERVICE_RESTART, reason, ServiceNotReady(f"{reason}: connect again"))

    async def is_alive(self) -> bool:
        """Return whether the peer is alive. The ping takes at most 5 s.

        If the peer is gone, wait until `release` has applied the acks received so far. This wait takes at most 5 s.
        """
        if await self.transport.is_alive(PROBE_TIMEOUT_MS):
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_left.wait(), PROBE_TIMEOUT_MS / 1000)
        return False

    async def disconnect(self, code: int) -> None:
        if code != NO_CLOSE_FRAME:
            self._departure = DepartureCause.CLOSED
        await super().disconnect(code)

    def release(self) -> None:
        """Apply the acks received so far, then detach every consumer. Safe to repeat."""
        self.is_letting_go = True
        self._ready.clear()
        self._ready_bytes = 0
        for source in self.sources:
            source.detach(self._departure)
        self._has_left.set()
