"""Move messages from the outbox table into topics.

Each topic or partition receives its rows in the order of their ids. A refused row is tried again after a minute, so
later rows may overtake it.

One statement stores a message and deletes its row, so each row is moved exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.client_identity import INTERNAL_FACE, ClientIdentity
from broker.core.counted import counted
from broker.core.entry import FLAG_ORDERING_KEY
from broker.core.errors import BrokerError, InvalidTopicName, ServiceNotReady
from broker.core.producers.access import OUTBOX_PRODUCER
from broker.core.topic_name import TopicName
from broker.log.sends import Receipt, SendRequest
from broker.producers.internal_producer import OpenedProducer, ProducerOpener
from broker.producers.requests import ProducerRequest
from broker.storage.away import is_away
from broker.storage.log import outbox as store
from broker.storage.pool import ConnectionPool
from broker.storage.supervised import for_ever
from vela.wire.entry import parse_header
from vela.wire.errors import EntryCorrupt

if TYPE_CHECKING:
    from broker.producers.requests import ProducerSink

__all__ = ["OutboxMover"]

logger = logging.getLogger(__name__)

IDLE_S: Final = 60.0
RETRY_S: Final = 60.0
_POLL_S = 1.0  # Poll, because a PostgreSQL notification may be lost
_ROWS = 500
# Limits per topic for rows that are sent but not yet stored
_MOST_ON_THE_WAY = 2000
_MOST_BYTES = 16 * 1024 * 1024
_IDENTITY = ClientIdentity(address="outbox", client_version="", face=INTERNAL_FACE)


class _Producer(OpenedProducer, Protocol):
    @property
    def is_settled(self) -> bool: ...


class _Opener(ProducerOpener, Protocol):
    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> _Producer: ...


class OutboxMover:
    """Moves the rows of all topics in one task."""

    def __init__(self, opener: _Opener, pool: ConnectionPool, *, is_ready: Callable[[], bool]) -> None:
        self._opener = opener
        self._pool = pool
        self._is_ready = is_ready
        self._topics: dict[str, _Topic] = {}
        self._refusals: deque[tuple[int, BrokerError]] = deque()
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.moved = 0
        self.refused = 0

    def start(self) -> None:
        """Start the task."""
        self._work.set()
        self._task = asyncio.create_task(for_ever(self._turn, what="the outbox"), name="outbox")

    async def stop(self) -> None:
        """Stop the task. The broker may still store rows that were sent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Look for rows now."""
        self._work.set()

    def refused_later(self, row_id: int, error: BrokerError) -> None:
        """Let the task store this row's refusal."""
        self._refusals.append((row_id, error))
        self._work.set()

    async def _refuse(self, row_ids: Sequence[int], error: BrokerError) -> None:
        self.refused += len(row_ids)
        rows = counted(len(row_ids), "row was", "rows were")
        logger.warning("outbox: %s refused; trying again in %d s: %s", rows, RETRY_S, error)
        async with self._pool.use() as connection:
            await store.refuse(connection, row_ids, error=str(error), retry_s=RETRY_S)

    async def _turn(self) -> None:
        # In Python 3.11, `asyncio.wait_for` could lose a cancellation.
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await self._work.wait()
        self._work.clear()
        if not self._is_ready():
            return
        while self._refusals:
            await self._write_refusal()
        async with self._pool.use() as connection:
            names = await store.topics(connection)
        for name in names:
            try:
                await self._move(name)
            except Exception as error:
                if is_away(error):
                    raise
                logger.exception("outbox: moving the rows of %s failed; they are tried again", name)
        self._let_idle_go()

    async def _write_refusal(self) -> None:
        row_id, error = self._refusals[0]
        try:
            await self._refuse([row_id], error)
        except Exception as fault:
            if is_away(fault):
                raise
            logger.exception(
                "outbox: the refusal of row %s was not stored; the row will be read and refused again", row_id
            )
        self._refusals.popleft()

    async def _move(self, name: str) -> None:
        topic = self._topics.setdefault(name, _Topic())
        topic.last_used_s = asyncio.get_running_loop().time()
        # Open the producers before reading rows. Opening fails while the topic is still storing rows of a closed
        # producer. These rows are still in the table. If this task read the rows now, it would send them again.
        try:
            lanes = await self._lanes(name, topic)
        except BrokerError as error:
            if not error.retriable:
                async with self._pool.use() as connection:
                    rows = await store.waiting(connection, name, taken=(), most=_ROWS, more_bytes=_MOST_BYTES)
                await self._refuse([row.row_id for row in rows], error)
            return
        most = min(_ROWS, _MOST_ON_THE_WAY - len(topic.taken))
        more_bytes = _MOST_BYTES - sum(topic.taken.values())
        if most <= 0 or more_bytes <= 0:
            return  # The receipts of the sent rows wake this task
        async with self._pool.use() as connection:
            rows = await store.waiting(
                connection, name, taken=sorted(topic.taken), most=most, more_bytes=more_bytes
            )
        for row in rows:
            turn = row.row_id if row.key_hash is None else row.key_hash
            lanes[turn % len(lanes)].send(row)
        if len(rows) == most:
            self._work.set()

    def _let_idle_go(self) -> None:
        idle_since_s = asyncio.get_running_loop().time() - IDLE_S
        for name, topic in list(self._topics.items()):
            if not topic.taken and topic.last_used_s <= idle_since_s:
                for lane in topic.lanes:
                    lane.detach()
                del self._topics[name]

    async def _lanes(self, name: str, topic: _Topic) -> list[_Lane]:
        try:
            parsed = TopicName.parse(name)
        except InvalidTopicName as error:
            raise InvalidTopicName(f"{error} (written into vela_outbox)") from None
        partitions = await self._opener.partition_count(parsed, create=True)
        wanted = [parsed.with_partition(index) for index in range(partitions)] or [parsed]
        for lane in topic.lanes[len(wanted) :]:
            lane.detach()
        topic.lanes = topic.lanes[: len(wanted)]
        for index, each in enumerate(wanted):
            if index == len(topic.lanes) or topic.lanes[index].topic != each:
                topic.lanes[index:] = [_Lane(self, each, topic.taken)]
            await topic.lanes[index].open(self._opener)
        return topic.lanes


@dataclass(slots=True)
class _Topic:
    lanes: list[_Lane] = field(default_factory=list)
    # Size in bytes by row id, for rows that are sent but not yet stored
    taken: dict[int, int] = field(default_factory=dict)
    last_used_s: float = 0.0  # Time on the event loop's clock


class _Lane:
    """The outbox's producer on one topic or partition."""

    def __init__(self, mover: OutboxMover, topic: TopicName, taken: dict[int, int]) -> None:
        self.topic = topic
        self._mover = mover
        self._taken = taken
        self._producer: _Producer | None = None
        self._closed: _Producer | None = None
        self._rows: dict[int, int] = {}  # Row ids by sequence id
        self._next_sequence_id = 0

    async def open(self, opener: _Opener) -> None:
        """Open the producer. Safe to repeat.

        Raises BrokerError if the topic refuses the producer, or is still storing rows of a closed producer.
        """
        if self._producer is None:
            if self._closed is not None and not self._closed.is_settled:
                raise ServiceNotReady(f"{self.topic} still stores rows of the outbox")
            request = ProducerRequest(topic=self.topic, name=OUTBOX_PRODUCER)
            self._producer = await opener.open_producer(request, _IDENTITY, self)
            self._next_sequence_id = max(self._next_sequence_id, self._producer.last_sequence_id + 1)

    def send(self, row: store.OutboxRow) -> None:
        """Send one row. If the producer is closed, the row stays in the table."""
        if self._producer is None:
            return
        sequence_id = self._next_sequence_id
        self._next_sequence_id += 1
        self._taken[row.row_id] = len(row.data)
        self._rows[sequence_id] = row.row_id
        self._producer.send(
            SendRequest(
                sequence_id, 0, 1, _flags(row.data), row.deliver_at_ms, row.key_hash, row.data, row.row_id
            )
        )

    def detach(self) -> None:
        if self._producer is not None:
            self._producer.detach()
        self.on_producer_closed(None)

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            row_id = self._rows.pop(receipt.sequence_id, None)
            if row_id is not None:
                self._taken.pop(row_id, None)
                self._mover.moved += 1
        self._mover.wake()

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        row_id = self._rows.pop(request.sequence_id, None)
        if row_id is None:
            return
        self._taken.pop(row_id, None)
        if not error.retriable:
            self._mover.refused_later(row_id, error)

    def on_producer_closed(self, error: BrokerError | None) -> None:
        self._producer, self._closed = None, self._producer
        for row_id in self._rows.values():
            self._taken.pop(row_id, None)
        self._rows.clear()

    async def is_alive(self) -> bool:
        """Return True, so that no other producer can take over the name."""
        return True


def _flags(entry: bytes) -> int:
    try:
        return 0 if parse_header(entry).ordering_key is None else FLAG_ORDERING_KEY
    except EntryCorrupt:
        return 0
