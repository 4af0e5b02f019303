"""The worker: how it subscribes, when it acks, what it does when its consumer ends, and how it stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.conf import BrokerSettings
from broker.handlers import Handler, Message, handler, worker
from broker.handlers.registry import registered
from broker.handlers.worker import client_of, run_handlers
from vela.aio import Client, PulsarException
from vela.options import ConsumerType, InitialPosition

STOP_TIMEOUT_S = 10.0


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all handlers except the test's own, and the pause after a fault."""
    monkeypatch.setattr("broker.handlers.registry._registered", {})
    monkeypatch.setattr(worker, "pause_after_faults_s", lambda _faults: 0)
    monkeypatch.setattr(
        Message,
        "from_received",
        lambda topic, name: Message(topic=topic, message_id=name, payload=b""),
    )


class Name(str):
    """A message that has only a name."""

    def message_id(self) -> str:
        """Return the id that the log shows."""
        return self


class FakeConsumer:
    """Delivers the messages that the test puts in, and records the outcome of each."""

    def __init__(self) -> None:
        self.arriving: asyncio.Queue[Name | Exception] = asyncio.Queue()
        self.outcomes: list[str] = []
        self.changed = asyncio.Event()

    async def receive(self) -> Name:
        """Return the next message, or raise the error that ends the consumer."""
        found = await self.arriving.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def acknowledge(self, message: Name) -> None:
        """Note the ack."""
        self._note(f"ack {message}")

    async def negative_acknowledge(self, message: Name) -> None:
        """Note the negative ack."""
        self._note(f"nack {message}")

    def _note(self, outcome: str) -> None:
        self.outcomes.append(outcome)
        self.changed.set()

    async def has(self, *outcomes: str) -> None:
        """Wait until the outcomes are exactly these, in any order."""
        async with asyncio.timeout(10):
            while sorted(self.outcomes) != sorted(outcomes):
                self.changed.clear()
                await self.changed.wait()


class FakeClient:
    """Subscribes at once, or refuses as often as the test says."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.consumers: asyncio.Queue[FakeConsumer] = asyncio.Queue()
        self.asked: list[SimpleNamespace] = []
        self.is_closed = False

    async def subscribe(
        self, topic: str, subscription: str, type_: ConsumerType, **options: Any
    ) -> FakeConsumer:
        """Return a new consumer, or refuse."""
        self.asked.append(SimpleNamespace(topic=topic, subscription=subscription, type=type_, **options))
        if len(self.asked) <= self.refusals:
            raise PulsarException("busy")
        consumer = FakeConsumer()
        self.consumers.put_nowait(consumer)
        return consumer

    async def close(self) -> None:
        """Note that the client was closed."""
        self.is_closed = True


def only_handler() -> Handler:
    (made,) = registered().values()
    return made


@asynccontextmanager
async def working(
    client: FakeClient, *, stop_timeout_s: float = STOP_TIMEOUT_S
) -> AsyncIterator[tuple[FakeConsumer, Callable[[], None]]]:
    """Run a worker with the only handler, and yield its first consumer and a function that stops the worker."""
    stopping = asyncio.Event()
    run = run_handlers(
        [only_handler()], cast(Client, client), stopping=stopping, stop_timeout_s=stop_timeout_s
    )
    task = asyncio.create_task(run)
    async with asyncio.timeout(10):
        consumer = await client.consumers.get()
    yield consumer, stopping.set
    stopping.set()
    async with asyncio.timeout(10):
        await task
    assert client.is_closed


async def test_a_handlers_declaration_becomes_its_consumers_options() -> None:
    @handler(
        "a/b/c",
        subscription="s/1",
        type="Key_Shared",
        retry_delay_s=2,
        max_redeliveries=3,
        ack_timeout_s=2,
        from_earliest=True,
        dead_letter_topic="a/b/dead",
    )
    async def take(message: Message) -> None: ...

    client = FakeClient()
    async with working(client):
        (asked,) = client.asked
    assert (asked.topic, asked.subscription) == ("persistent://a/b/c", "s/1")
    assert (asked.type, asked.receiver_queue_size) == (ConsumerType.KeyShared, 1)
    assert (asked.unacked_messages_timeout_ms, asked.negative_ack_redelivery_delay_ms) == (2000, 2000)
    assert asked.initial_position is InitialPosition.Earliest
    policy = asked.dead_letter_policy
    assert (policy.max_redeliver_count, policy.dead_letter_topic) == (3, "a/b/dead")
    assert asked.consumer_name == only_handler().name


async def test_without_limits_there_is_no_timeout_and_no_dead_letter() -> None:
    @handler("t", subscription="s", concurrency=7)
    async def take(message: Message) -> None: ...

    client = FakeClient()
    async with working(client):
        (asked,) = client.asked
    assert (asked.type, asked.receiver_queue_size) == (ConsumerType.Shared, 7)
    assert asked.unacked_messages_timeout_ms is None
    assert asked.dead_letter_policy is None
    assert asked.initial_position is InitialPosition.Latest


async def test_a_message_is_acked_if_its_handler_returns_and_not_if_it_raises() -> None:
    @handler("t", subscription="s")
    async def take(message: Message) -> None:
        if message.message_id == "bad":
            raise ValueError("a fault")

    async with working(FakeClient()) as (consumer, _):
        for name in ("good", "bad", "better"):
            consumer.arriving.put_nowait(Name(name))
        await consumer.has("ack good", "nack bad", "ack better")


async def test_a_handler_that_ends_with_a_cancellation_of_its_own_has_failed() -> None:
    @handler("t", subscription="s")
    async def take(message: Message) -> None:
        helper = asyncio.ensure_future(asyncio.Event().wait())
        helper.cancel()
        await helper

    async with working(FakeClient()) as (consumer, _):
        consumer.arriving.put_nowait(Name("a"))
        await consumer.has("nack a")


async def test_at_most_as_many_calls_run_at_once_as_the_handler_allows() -> None:
    meeting, most = asyncio.Barrier(2), 0
    running = 0

    @handler("t", subscription="s", concurrency=2)
    async def take(message: Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await meeting.wait()
        running -= 1

    async with working(FakeClient()) as (consumer, _):
        for name in "abcdef":
            consumer.arriving.put_nowait(Name(name))
        await consumer.has(*(f"ack {name}" for name in "abcdef"))
    assert most == 2


async def test_a_refused_subscription_is_asked_for_again() -> None:
    @handler("t", subscription="s")
    async def take(message: Message) -> None: ...

    client = FakeClient(refusals=3)
    async with working(client) as (consumer, _):
        consumer.arriving.put_nowait(Name("a"))
        await consumer.has("ack a")
    assert len(client.asked) == 4


@pytest.mark.parametrize("error", [PulsarException("closed"), RuntimeError("a fault")])
async def test_a_consumer_that_ended_is_replaced(error: Exception) -> None:
    @handler("t", subscription="s")
    async def take(message: Message) -> None: ...

    client = FakeClient()
    async with working(client) as (first, _):
        first.arriving.put_nowait(error)
        async with asyncio.timeout(10):
            second = await client.consumers.get()
        second.arriving.put_nowait(Name("a"))
        await second.has("ack a")


async def test_a_call_under_way_ends_and_is_acked_before_the_worker_stops() -> None:
    began, may_end = threading.Event(), threading.Event()

    @handler("t", subscription="s")
    def take(message: Message) -> None:
        began.set()
        assert may_end.wait(10)

    async with working(FakeClient()) as (consumer, stop):
        consumer.arriving.put_nowait(Name("a"))
        await asyncio.to_thread(began.wait, 10)
        stop()
        consumer.arriving.put_nowait(Name("too late"))
        await asyncio.sleep(0)
        assert not consumer.outcomes
        may_end.set()
    assert consumer.outcomes == ["ack a"]


async def test_a_call_that_does_not_end_in_time_is_left_unacked() -> None:
    began = asyncio.Event()

    @handler("t", subscription="s")
    async def take(message: Message) -> None:
        began.set()
        await asyncio.Event().wait()

    async with working(FakeClient(), stop_timeout_s=0) as (consumer, _):
        consumer.arriving.put_nowait(Name("a"))
        await began.wait()
    assert not consumer.outcomes


@pytest.mark.parametrize(
    ("url", "connects_to"),
    [
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/ws/binary"),
        ("https://vela.example", "wss://vela.example:443/ws/binary"),
        ("ws://vela.example:81", "ws://vela.example:81/ws/binary"),
        ("pulsar://vela.example:66", "pulsar://vela.example:66"),
    ],
)
async def test_the_client_connects_to_the_address_as_vela_does(url: str, connects_to: str) -> None:
    settings = BrokerSettings(url=url)
    (address,) = client_of(settings)._service_url.addresses
    assert address.url == connects_to
    # The broker tells other clients this address.
    assert settings.advertised_http_url == "http://127.0.0.1:8080"
