"""A scripted broker with one topic. It delivers what the test gives it, and counts permits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from broker.doors.binary.wire import events
from tests.support.scripted_peer import Link, ScriptedPeer
from tests.support.waiting import until
from tests.unit.client.entries import single
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.flow.receive_window import ReceiveWindow

__all__ = ["TOPIC", "Desk", "desk_running", "owed"]

TOPIC = "persistent://public/default/orders"


class Desk:
    """The peer, its client, and the permits and deliveries since the last SUBSCRIBE."""

    def __init__(self, peer: ScriptedPeer, client: Client) -> None:
        self.peer = peer
        self.client = client
        self.consumer_id = -1
        self.link: Link = None  # type: ignore[assignment]  # set by SUBSCRIBE
        self.flows: list[int] = []
        """Permits of each Flow since the last SUBSCRIBE."""
        self.charged = 0
        """Permits spent since the last SUBSCRIBE."""
        self.most_permits = 0
        """The most permits that the broker ever had at once."""
        self.next_entry = 0
        peer.on(events.Subscribe, self._subscribed)
        peer.on(events.Flow, self._flowed)

    def _subscribed(self, link: Link, event: events.Subscribe) -> None:
        self.link, self.consumer_id = link, event.consumer_id
        self.flows, self.charged = [], 0
        link.engine.send_success(event.request_id)

    def _flowed(self, link: Link, event: events.Flow) -> None:
        if link is self.link:
            assert event.permits > 0
            self.flows.append(event.permits)
            self.most_permits = max(self.most_permits, self.permits)

    @property
    def permits(self) -> int:
        """The number of messages that the broker may still send."""
        return sum(self.flows) - self.charged

    async def subscribe(self, **options: Any) -> TopicConsumer:
        """Subscribe to the topic and return the consumer."""
        consumer = await self.client.subscribe(TOPIC, "billing", **options)
        assert isinstance(consumer, TopicConsumer)
        return consumer

    def deliver(self, entry: bytes, *, messages: int = 1, link: Link | None = None, **fields: Any) -> int:
        """Deliver an entry of this many messages and return its entry id."""
        entry_id: int = fields.pop("entry_id", self.next_entry)
        self.next_entry = max(self.next_entry, entry_id + 1)
        self.charged += messages
        (link or self.link).deliver(self.consumer_id, entry, entry_id=entry_id, **fields)
        return entry_id

    def deliver_each(self, *payloads: bytes) -> list[int]:
        """Deliver each of these messages as a separate entry, and return the entry ids."""
        return [self.deliver(single(payload)) for payload in payloads]

    def drop(self) -> None:
        """Break the connection. Its permits are lost."""
        self.link.drop()
        self.flows, self.charged = [], 0

    async def fence(self, consumer: TopicConsumer) -> None:
        """Wait until everything that the consumer sent so far has arrived."""
        await consumer.last_message()

    def acks(self) -> list[tuple[int, int]]:
        """Return ledger and entry of every ack that arrived, discards included."""
        return [(each.ledger_id, each.entry_id) for ack in self.peer.of(events.Ack) for each in ack.ids]

    def discards(self) -> list[tuple[int, str]]:
        """Return each entry that the consumer discarded, with its reason."""
        return [
            (each.entry_id, ack.validation_error.name)
            for ack in self.peer.of(events.Ack)
            if ack.validation_error is not None
            for each in ack.ids
        ]

    async def settled(self, permits: int) -> None:
        """Wait until the broker has this many permits."""
        await until(lambda: self.permits == permits, f"{permits} permits, not {self.permits}")

    async def resubscribed(self, times: int) -> None:
        """Wait until the consumer has subscribed this often and has granted permits."""
        await until(lambda: self.peer.count(events.Subscribe) >= times, f"SUBSCRIBE number {times}")
        await until(lambda: self.flows, "a Flow after it")


def owed(consumer: TopicConsumer) -> int:
    """Return how many permits the consumer has freed and not granted yet."""
    window = consumer.flow.permits
    assert isinstance(window, ReceiveWindow)
    return window.owed


@asynccontextmanager
async def desk_running(**options: Any) -> AsyncIterator[Desk]:
    """Run a desk whose client reconnects quickly."""
    async with ScriptedPeer.started() as peer:
        client = Client(peer.url, initial_backoff_ms=5, max_backoff_ms=50, **options)
        try:
            yield Desk(peer, client)
        finally:
            await client.close()
