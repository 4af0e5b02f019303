"""The producer of a partitioned topic: a router, and one producer for each partition."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from vela.aio.own_loop import require_loop
from vela.aio.producers.producer import Producer
from vela.aio.producers.send_answers import SendFuture
from vela.aio.producers.topic_producer import TopicProducer
from vela.core.producing.key_hash import key_hash
from vela.core.producing.options import MessageRouter, ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.routing import RoundRobin, Router, SinglePartition
from vela.core.producing.statistics import ProducerCounters, ProducerStatistics
from vela.core.topic_name import partition_name
from vela.errors import AlreadyClosed, InvalidConfiguration, VelaError
from vela.message import Message, ReceivedEntry
from vela.options import PartitionsRoutingMode, ProducerAccessMode
from vela.wire.entry import Message as Body

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts

__all__ = ["PartitionedProducer"]

logger = logging.getLogger(__name__)


class PartitionedProducer(Producer):
    """A producer of a partitioned topic.

    Without a `message_router`, messages of one key go to one partition, so they are in order while the number of
    partitions stays the same. The producer looks for new partitions every `partitions_update_interval_s`. With
    `lazy_start_partitioned_producers` (Shared access only) it opens a partition's producer for its first message. If
    that fails, the waiting messages fail, and the next message tries again.
    """

    def __init__(self, client: ClientPorts, topic: str, options: ProducerOptions, partitions: int) -> None:
        super().__init__(topic, options.schema)
        self._client = client
        self._options = options
        self._producers: list[TopicProducer | None] = [None] * partitions
        self._name = ""  # found by `producer_name`, and kept when a lazy start opens a lower partition
        self._router = _router(options, topic)
        self._lazy = options.lazy_start_partitioned_producers and (
            options.access_mode is ProducerAccessMode.Shared
        )
        self._retired = ProducerCounters()  # counters of producers that were replaced after a failure
        self._updating: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_closed = False

    def producer_name(self) -> str:
        """Return the name of one partition's producer. If the broker chose the names, each partition's is different."""
        if not self._name:
            names = (each.producer_name() for each in self._producers if each is not None)
            self._name = next(filter(None, names), "")
        return self._name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id over all partitions."""
        return max((each.last_sequence_id() for each in self._producers if each is not None), default=-1)

    def is_connected(self) -> bool:
        """Return whether all started producers are connected."""
        return not self._is_closed and all(
            each.is_connected() for each in self._producers if each is not None
        )

    def partitions(self) -> int:
        """Return the number of known partitions."""
        return len(self._producers)

    def statistics(self) -> ProducerStatistics:
        """Return the sum over all partitions."""
        total, pending = ProducerCounters(), 0
        total.add(self._retired)
        for each in self._producers:
            if each is not None:
                total.add(each.counters)
                pending += each.statistics().messages_pending
        return total.snapshot(pending)

    # --- opening and growing

    async def open(self) -> None:
        """Open all producers, or only one with a lazy start. If one fails, close all and raise the first error."""
        indexes = [self._route(Outgoing(b""))] if self._lazy else list(range(len(self._producers)))
        for index in indexes:
            self._producers[index] = self._new(index)
        await self._open_all([self._producers[index] for index in indexes])
        if self._options.partitions_update_interval_s:
            self._updating = self._loop.create_task(self._update())

    def _new(self, index: int) -> TopicProducer:
        return TopicProducer(
            self._client,
            partition_name(self._topic, index),
            self._options.of_partition(len(self._producers)),
        )

    async def _open_all(self, producers: list[TopicProducer | None]) -> None:
        """Open these producers. If one fails, close all and raise the first error."""
        wanted = [each for each in producers if each is not None]
        try:
            if self._options.access_mode is not ProducerAccessMode.Shared:
                # If two programs opened all at once, each could get some partitions and wait for the others for ever.
                await wanted.pop(0).open()
            await _open_together(wanted)
        except BaseException:
            await asyncio.gather(*(each.close() for each in producers if each is not None))
            raise

    async def _update(self) -> None:
        while True:
            await asyncio.sleep(self._options.partitions_update_interval_s)
            try:
                await self.update_partitions()
            except VelaError as error:
                logger.info("%s: cannot look for new partitions: %s", self._topic, error)

    async def update_partitions(self) -> None:
        """Look for new partitions now. After an error of the lookup or of opening, nothing has changed."""
        known = len(self._producers)
        count = await self._client.partitions(self._topic, create=False)
        if count <= known or self._is_closed:
            return
        added: list[TopicProducer | None] = [None] * (count - known)
        if not self._lazy:
            added = [self._new(index) for index in range(known, count)]
            await self._open_all(added)
        self._producers += added
        logger.info("%s has %s partitions now", self._topic, count)

    # --- sending

    def _send_plain(self, payload: bytes, future: SendFuture) -> None:
        self._to_partition(Outgoing(payload), future)

    def send_outgoing(self, message: Outgoing, future: SendFuture) -> None:
        self._to_partition(message, future)

    def _to_partition(self, message: Outgoing, future: SendFuture) -> None:
        if self._is_closed:
            future.set_exception(AlreadyClosed(f"the producer of {self._topic} is closed"))
            return
        index = self._route(message)
        producer = self._producers[index]
        if producer is None or (self._lazy and producer.has_failed_to_open()):
            if producer is not None:
                self._retired.add(producer.counters)
            producer = self._producers[index] = self._new(index)
            producer.start()
        producer.send_outgoing(message, future)

    def _route(self, message: Outgoing) -> int:
        return self._router.partition(message, len(self._producers), int(time.monotonic() * 1000))

    # --- flushing and closing

    async def flush(self) -> None:
        flushing = [each.flush() for each in self._producers if each is not None]
        for outcome in await asyncio.gather(*flushing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def close(self) -> None:
        if self._closing is None:
            require_loop(self._loop)
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._is_closed = True
        if self._updating is not None:
            self._updating.cancel()
            await asyncio.wait((self._updating,))
        await asyncio.gather(*(each.close() for each in self._producers if each is not None))
        self._client.forget(self)


async def _open_together(producers: list[TopicProducer]) -> None:
    opening = [asyncio.ensure_future(each.open()) for each in producers]
    try:
        await asyncio.gather(*opening)
    except BaseException:
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        raise


class _Custom:
    """A router that calls the application's function."""

    def __init__(self, choose: MessageRouter, topic: str) -> None:
        self._choose = choose
        self._topic = topic

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """Return the function's result. Raises InvalidConfiguration if it is not a partition."""
        body = Body(
            message.payload,
            dict(message.properties),
            message.key,
            message.event_time_ms,
            int(time.time() * 1000),  # not `now_ms`, whose clock does not show the date
            -1,
            0,
            -1 if message.sequence_id is None else message.sequence_id,
            "",
            message.ordering_key,
            message.key_b64,
            message.null_value,
        )
        chosen = int(self._choose(Message(body, ReceivedEntry(self._topic, -1, -1)), partitions))
        if not 0 <= chosen < partitions:
            raise InvalidConfiguration(
                f"message_router returned partition {chosen}; {self._topic} has 0 to {partitions - 1}"
            )
        return chosen


def _router(options: ProducerOptions, topic: str) -> Router:
    if options.message_router is not None:
        return _Custom(options.message_router, topic)
    hash_key, seed = key_hash(options.hashing_scheme), random.getrandbits(31)
    if options.message_routing_mode is PartitionsRoutingMode.UseSinglePartition:
        return SinglePartition(hash_key, seed=seed)
    delay_ms = int(options.batching_max_publish_delay_ms)
    return RoundRobin(hash_key, seed=seed, limits=options.batch_limits(), delay_ms=delay_ms)
