"""Moves what Django code published inside its transactions into the log.

Rows of one topic are moved in the order of their ids among those visible: within a transaction, and from one
transaction to another that began publishing after the first had committed. A transaction that is still open keeps only
its own rows back.

An entry is stored and its row deleted by one statement, so a crash at any moment moves it once. A row is read again
only after its topic was opened again, which waits for the end of every statement that may have moved it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.core.client_identity import INTERNAL_FACE, ClientIdentity
from broker.core.errors import BrokerError, InvalidTopicName
from broker.core.producers.access import OUTBOX_PRODUCER
from broker.core.topic_name import TopicName
from broker.log.sends import Receipt, SendRequest
from broker.producers.requests import ProducerRequest
from broker.storage.log import outbox as store
from broker.storage.pool import ConnectionPool
from broker.storage.supervised import AWAY, for_ever

if TYPE_CHECKING:
    from broker.producers.internal_producer import OpenedProducer, ProducerOpener

__all__ = ["OutboxMover"]

log = logging.getLogger(__name__)

IDLE_S: Final = 60.0  # without rows: a topic lets go of its producer, and may leave memory
RETRY_S: Final = 60.0  # a row that its topic refuses is tried again so much later
_POLL_S = 1.0  # the net under the notifications
_ROWS = 500
_MOST_ON_THE_WAY = 2000  # of one topic
_IDENTITY = ClientIdentity(address="outbox", client_version="", face=INTERNAL_FACE)


class OutboxMover:
    """One task for all topics; a topic whose rows cannot be moved does not hold up the others."""

    def __init__(self, opener: ProducerOpener, pool: ConnectionPool, *, is_ready: Callable[[], bool]) -> None:
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
        """Begin; what waited while no broker ran is moved first."""
        self._work.set()
        self._task = asyncio.create_task(for_ever(self._turn, what="the outbox"), name="outbox")

    async def stop(self) -> None:
        """End; rows on their way get their outcome from the writer, the others stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """A transaction that published has committed."""
        self._work.set()

    def refused_later(self, row_id: int, error: BrokerError) -> None:
        """A topic does not take this row; written down before rows are read again."""
        self._refusals.append((row_id, error))
        self._work.set()

    async def _refuse(self, row_ids: Sequence[int], error: BrokerError) -> None:
        self.refused += len(row_ids)
        log.warning("outbox: %s rows stay for %s s: %s", len(row_ids), RETRY_S, error)
        async with self._pool.use() as connection:
            await store.refuse(connection, row_ids, error=str(error), retry_s=RETRY_S)

    async def _turn(self) -> None:
        # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
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
            except AWAY:
                raise
            except Exception:  # the other topics' rows are moved all the same
                log.exception("outbox: moving the rows of %s failed; they are tried again", name)
        self._let_idle_go()

    async def _write_refusal(self) -> None:
        row_id, error = self._refusals[0]
        try:
            await self._refuse([row_id], error)
        except AWAY:
            raise
        except Exception:  # the row is refused again when it is read again
            log.exception("outbox: writing down why row %s stays failed", row_id)
        self._refusals.popleft()

    async def _move(self, name: str) -> None:
        """One topic's next rows on their way. First the producers, then the rows: see the module's last paragraph."""
        topic = self._topics.setdefault(name, _Topic())
        topic.last_used_s = asyncio.get_running_loop().time()
        try:
            lanes = await self._lanes(name, topic)
        except BrokerError as error:
            if not error.retriable:
                async with self._pool.use() as connection:
                    rows = await store.waiting(connection, name, taken=(), most=_ROWS)
                await self._refuse([row.row_id for row in rows], error)
            return
        most = min(_ROWS, _MOST_ON_THE_WAY - len(topic.taken))
        if most <= 0:
            return  # its receipts wake this task
        async with self._pool.use() as connection:
            rows = await store.waiting(connection, name, taken=sorted(topic.taken), most=most)
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
        """A producer for each partition, opened again where it was closed."""
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
    """What is on its way to one topic."""

    lanes: list[_Lane] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)  # rows whose outcome is not known yet
    last_used_s: float = 0.0  # by the loop's clock


class _Lane:
    """The producer on one topic or partition; a `ProducerSink`."""

    def __init__(self, mover: OutboxMover, topic: TopicName, taken: set[int]) -> None:
        self.topic = topic
        self._mover = mover
        self._taken = taken
        self._producer: OpenedProducer | None = None
        self._rows: dict[int, int] = {}  # sequence id → row
        self._next_sequence_id = 0

    async def open(self, opener: ProducerOpener) -> None:
        """Attach. Safe to repeat; raises BrokerError."""
        if self._producer is None:
            request = ProducerRequest(topic=self.topic, name=OUTBOX_PRODUCER)
            self._producer = await opener.open_producer(request, _IDENTITY, self)
            self._next_sequence_id = max(self._next_sequence_id, self._producer.last_sequence_id + 1)

    def send(self, row: store.OutboxRow) -> None:
        """Put one row on its way; a lane that was closed meanwhile leaves it where it is."""
        if self._producer is None:
            return
        sequence_id = self._next_sequence_id
        self._next_sequence_id += 1
        self._taken.add(row.row_id)
        self._rows[sequence_id] = row.row_id
        self._producer.send(
            SendRequest(sequence_id, 0, 1, 0, row.deliver_at_ms, row.key_hash, row.data, row.row_id)
        )

    def detach(self) -> None:
        """The topic has no such partition any more, or nothing was published to it for long."""
        if self._producer is not None:
            self._producer.detach()
        self.on_producer_closed(None)

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """The entries are stored, their rows are gone."""
        for receipt in receipts:
            row_id = self._rows.pop(receipt.sequence_id, None)
            if row_id is not None:
                self._taken.discard(row_id)
                self._mover.moved += 1
        self._mover.wake()

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Known not to be stored: again in the next round, or later when that would be of no use."""
        row_id = self._rows.pop(request.sequence_id, None)
        if row_id is None:
            return
        self._taken.discard(row_id)
        if not error.retriable:
            self._mover.refused_later(row_id, error)

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """The topic goes away. What is on its way may still be stored: the rows are read again once it is back."""
        self._producer = None
        self._taken.difference_update(self._rows.values())
        self._rows.clear()

    async def is_alive(self) -> bool:
        """Nobody else may have the name."""
        return True
