"""A JSON consumer over WebSocket. Its broker runs in the test's own loop, with the test's clock."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from broker.core.entry import FLAG_BATCH
from broker.doors.websocket.application import websocket_application
from broker.log.sends import SendRequest
from broker.subscription.consumer import Consumer
from broker.subscription.subscription import Subscription
from tests.support.broker_harness import BrokerRun, eventually
from tests.unit.doors.socket_peer import Peer
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

__all__ = ["JsonPeer", "only_consumer", "publish", "publish_batch", "publish_entries", "text_of", "texts_of"]

EARLY = "subscriptionInitialPosition=Earliest"


class JsonPeer:
    """One consumer. It keeps every push in `pushes`."""

    def __init__(self, run: BrokerRun, query: str, *, topic: str, subscription: str) -> None:
        path = f"/ws/v2/consumer/persistent/public/default/{quote(topic)}/{quote(subscription)}"
        self.peer = Peer(websocket_application(run.broker, run.clock), f"{path}?{EARLY}&{query}")
        self.pushes: list[dict[str, Any]] = []

    @classmethod
    async def open(
        cls, run: BrokerRun, query: str = "", *, topic: str = "t", subscription: str = "s"
    ) -> JsonPeer:
        """Connect; the subscription begins at the topic's first message."""
        client = cls(run, query, topic=topic, subscription=subscription)
        await eventually(lambda: client.peer.sent, "the handshake's answer")
        assert client.peer.sent[0]["type"] == "websocket.accept", client.peer.sent
        return client

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the handshake's answer."""
        return {name.decode(): value.decode() for name, value in self.peer.sent[0].get("headers", ())}

    async def has(self, count: int) -> list[dict[str, Any]]:
        """Wait for this many pushes in total."""

        def enough() -> bool:
            self.pushes += self.peer.heard()
            return len(self.pushes) >= count

        await eventually(enough, f"{count} pushes, {len(self.pushes)} before the wait")
        return self.pushes

    async def has_no_more(self, count: int) -> None:
        """Check that no push comes after the first `count`, once everything that is ready has run."""
        for _ in range(20):
            await asyncio.sleep(0.002)
        self.pushes += self.peer.heard()
        assert [text_of(push) for push in self.pushes[count:]] == []

    async def ack(self, *pushes: dict[str, Any], **fields: Any) -> None:
        """Acknowledge pushes, with one frame each."""
        await self.peer.tell(*({"messageId": push["messageId"], **fields} for push in pushes))

    async def nack(self, *pushes: dict[str, Any]) -> None:
        """Ask for the messages again, with negative acks."""
        await self.ack(*pushes, type="negativeAcknowledge")

    async def reconsume_later(self, push: dict[str, Any], delay_ms: int, **properties: str) -> None:
        """Ask for a message again after a delay."""
        fields: dict[str, Any] = {"properties": properties} if properties else {}
        await self.ack(push, type="reconsumeLater", delayMillis=delay_ms, **fields)

    async def leave(self) -> None:
        """Close the connection."""
        await self.peer.leave()


def text_of(push: dict[str, Any]) -> str:
    """Return the payload as text."""
    return base64.b64decode(push["payload"]).decode()


def texts_of(pushes: Iterable[dict[str, Any]]) -> list[str]:
    """Return the payloads as texts."""
    return [text_of(push) for push in pushes]


async def publish(run: BrokerRun, *payloads: str, topic: str = "t", **fields: Any) -> None:
    """Publish messages, each in a separate entry."""
    entries = [
        encode_single(
            producer_name="p",
            sequence_id=number,
            publish_time_ms=run.clock.now_ms(),
            payload=payload.encode(),
            **fields,
        )
        for number, payload in enumerate(payloads)
    ]
    await publish_entries(run, *entries, topic=topic)


async def publish_batch(run: BrokerRun, *payloads: str, topic: str = "t") -> None:
    """Publish messages as one entry."""
    data = encode_batch(
        [OutgoingMessage(payload=payload.encode()) for payload in payloads],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=run.clock.now_ms(),
    )
    await publish_entries(run, data, topic=topic, messages=len(payloads), flags=FLAG_BATCH)


async def publish_entries(
    run: BrokerRun, *entries: bytes, topic: str = "t", messages: int = 1, flags: int = 0
) -> None:
    """Publish entries unchanged."""
    probe = await run.producer(topic)
    assert probe.producer is not None
    for number, data in enumerate(entries):
        probe.producer.send(SendRequest(number, 0, messages, flags, 0, None, data))
    await probe.has_receipts(len(entries))
    probe.producer.detach()


def only_consumer(subscription: Subscription) -> Consumer:
    """Return the only attached consumer."""
    (consumer,) = subscription.consumers.values()
    return consumer
