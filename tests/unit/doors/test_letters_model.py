"""I16 under any order of negative acks, acks, refused letters and lost sockets: no message is lost."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.errors import PersistenceFailed
from broker.doors.websocket.application import websocket_application
from broker.log.sends import SendRequest
from tests.unit.doors.fake_broker import FakeBroker, FakeConsumer, FakeSubscription
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.wire_client import settle
from vela.wire.entry import OutgoingMessage, decode_messages, encode_batch, encode_single
from vela.wire.message_id import MessageId

TARGET = (
    "/ws/v2/consumer/persistent/public/default/orders/s?subscriptionInitialPosition=Earliest"
    "&subscriptionType=Shared&maxRedeliverCount=1&deadLetterRule="
)
ENTRIES = 3

steps = st.lists(
    st.tuples(
        st.sampled_from(["nack", "nack", "due", "due", "break", "mend", "ack", "leave"]), st.integers(0, 9)
    ),
    max_size=40,
)


class _World:
    """A topic of two single messages and a batch of three, its consumer, and what the application has acked."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.broker = FakeBroker()
        self.done: set[bytes] = set()
        self.held: list[dict[str, Any]] = []
        topic = self.broker.topic("orders")
        for number in range(2):
            data = encode_single(
                producer_name="p", sequence_id=number, publish_time_ms=1, payload=b"%d" % number
            )
            topic.append(SendRequest(number, 0, 1, 0, 0, None, data))
        batch = encode_batch(
            [OutgoingMessage(payload=text) for text in (b"a", b"b", b"c")],
            producer_name="p",
            sequence_id=2,
            publish_time_ms=1,
        )
        topic.append(SendRequest(2, 4, 3, 1, 0, None, batch))

    @property
    def subscription(self) -> FakeSubscription:
        return self.broker.topic("orders").subscriptions["s"]

    @property
    def consumer(self) -> FakeConsumer:
        return self.subscription.consumers[0]

    async def connect(self) -> None:
        self.peer = await Peer(websocket_application(self.broker), TARGET + self.rule).opened()
        self.held = []
        self.hear()

    def hear(self) -> None:
        self.held += self.peer.heard()

    def letters(self) -> set[bytes]:
        """Return the payloads on the dead letter topic."""
        name = "persistent://public/default/orders-s-DLQ"
        topic = self.broker.topics.get(name)
        return {
            message.payload
            for entry in (topic.entries if topic else ())
            for message in decode_messages(entry.data, max_message_bytes=1000)
        }

    async def step(self, what: str, number: int) -> None:
        match what:
            case "nack" | "ack" if self.held:
                push = self.held.pop(number % len(self.held))
                fields = {"type": "negativeAcknowledge"} if what == "nack" else {}
                if what == "ack":
                    self.done.add(base64.b64decode(push["payload"]))
                await self.peer.tell({"messageId": push["messageId"], **fields})
            case "due":
                due, self.consumer.negative = self.consumer.negative, []
                ids = {position.entry_id for position, _ in due} & self.consumer.pending
                self.held = [each for each in self.held if _entry_of(each) not in ids]
                self.consumer.come_due(*sorted(ids))
            case "break":
                self.broker.refuse_sends = PersistenceFailed("the disk is full")
            case "mend":
                self.broker.refuse_sends = None
            case "leave":
                await self.peer.leave()
                await self.connect()
        await settle()
        self.hear()
        self.check()

    def check(self) -> None:
        """Check that every message acked at the broker was acked by the application or is a dead letter."""
        payloads = ({b"0"}, {b"1"}, {b"a", b"b", b"c"})
        for entry_id, wanted in enumerate(payloads):
            if entry_id in self.subscription.acked:
                assert wanted <= self.done | self.letters()


def _entry_of(push: dict[str, Any]) -> int:
    return MessageId.from_base64(push["messageId"]).entry_id


@pytest.mark.row("I16")
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["java", "go"]), steps)
def test_a_message_ends_with_the_application_or_as_a_letter(rule: str, steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        world = _World(rule)
        await world.connect()
        for what, number in steps:
            await world.step(what, number)
        await world.step("mend", 0)
        for _ in range(20):
            for _ in range(len(world.held)):
                await world.step("nack", 0)
            await world.step("due", 0)
        assert world.subscription.acked == set(range(ENTRIES))
        assert world.done | world.letters() == {b"0", b"1", b"a", b"b", b"c"}
        await world.peer.leave()

    asyncio.run(run())


async def test_a_fault_while_a_letter_topic_opens_stops_only_the_first_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = _World("java")
    await world.connect()
    opened, faults = world.broker.open_producer, [psycopg.OperationalError("the connection is lost")]

    async def open_producer(*arguments: Any) -> Any:
        if faults:
            raise faults.pop()
        return await opened(*arguments)

    monkeypatch.setattr(world.broker, "open_producer", open_producer)
    for _ in range(3):  # a redelivery, a letter that fails, and a letter that is written
        world.consumer.come_due(0)
        await settle()
    assert (faults, world.letters()) == ([], {b"0"})
