"""The broker's side of one attached producer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError, PersistenceFailed

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.service.topic import Topic
    from broker.service.values import ClientIdentity, ProducerSink, Receipt, SendRequest

__all__ = ["Producer"]

log = logging.getLogger(__name__)


class Producer:
    """Accepts sends; their receipts go to the sink after COMMIT, in the order of the sends."""

    def __init__(
        self, *, key: int, topic: Topic, name: str, identity: ClientIdentity, sink: ProducerSink, now_ms: int
    ) -> None:
        self.key = key
        self.name = name
        self.identity = identity
        self.sink = sink
        self.connected_ms = now_ms
        self.last_sequence_id = -1  # -1 = not known: deduplication is off (protocol 3.5)
        self.messages_in = 0
        self.bytes_in = 0
        self.last_sent_sequence_id = -1
        self.last_send_ms = 0
        self._topic = topic
        self._pending = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_open = True

    @property
    def topic_name(self) -> TopicName:
        """The topic, or the partition, it writes to."""
        return self._topic.name

    def send(self, request: SendRequest) -> None:
        """Queue one entry. Never blocks and raises nothing; the answer comes through the sink."""
        if not self.is_open:
            self.sink.on_send_failed(request, PersistenceFailed("the producer is closed; open it again"))
            return
        self._pending += 1
        self._idle.clear()
        self._topic.append(self, request)

    def answered(self, receipts: list[Receipt], messages: int, size_bytes: int, now_ms: int) -> None:
        """These sends are durable."""
        self.messages_in += messages
        self.bytes_in += size_bytes
        self.last_send_ms = now_ms
        self.last_sent_sequence_id = receipts[-1].sequence_id
        self._forget(len(receipts))
        if self.is_open:
            try:
                self.sink.on_receipts(receipts)
            except Exception:  # other producers of the same commit must get theirs
                log.exception("producer %s: writing receipts failed", self.name)

    def failed(self, request: SendRequest, error: BrokerError) -> None:
        """This send is known not to be stored."""
        self._forget(1)
        if self.is_open:
            try:
                self.sink.on_send_failed(request, error)
            except Exception:
                log.exception("producer %s: writing a refusal failed", self.name)

    async def close(self) -> None:
        """Detach after every pending send has been answered."""
        await self._idle.wait()
        self.detach()

    def detach(self) -> None:
        """The connection is gone, or the client closed it. Sends already queued are stored all the same. Repeatable."""
        if self.is_open:
            self.is_open = False
            self._topic.remove_producer(self)

    def closed_by_broker(self, error: BrokerError | None) -> None:
        """The topic goes away; the client looks it up again and resends what got no receipt."""
        if self.is_open:
            self.is_open = False
            self._idle.set()
            try:
                self.sink.on_producer_closed(error)
            except Exception:
                log.exception("producer %s: telling it that it is closed", self.name)

    def _forget(self, count: int) -> None:
        self._pending -= count
        if self._pending <= 0:
            self._idle.set()
