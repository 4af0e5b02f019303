"""Message listeners."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk, owed
from tests.integration.client.consumer.test_receiving import payloads
from tests.support.fails_once import FailsOnce
from tests.support.scripted_peer import LEDGER_ID
from tests.support.waiting import until
from tests.unit.client.entries import batch, single
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.message import Message, MessageId
from vela.options import ConsumerType


@pytest.fixture(params=["thread", "task"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def listener(kind: str, function: Any) -> Any:
    async def listen(consumer: Any, message: Any) -> None:
        function(consumer, message)

    return listen if kind == "task" else function


@pytest.mark.row("S0.29")
async def test_every_message_is_handed_to_the_listener_in_order(desk: Desk, kind: str) -> None:
    seen: list[bytes] = []
    consumer = await desk.subscribe(
        message_listener=listener(kind, lambda consumer, message: seen.append(message.data())),
        receiver_queue_size=10,
    )
    sent = [b"%d" % index for index in range(30)]
    for start in range(0, 30, 3):
        desk.deliver(batch(sent[start : start + 3]), messages=3)
    await until(lambda: len(seen) == 30, "thirty calls")
    assert seen == sent
    await until(lambda: consumer.counters.messages_received == 30, "their count")
    await until(lambda: desk.permits + owed(consumer) == 10, "all permits")


@pytest.mark.row("S0.29")
async def test_a_blocked_listener_delays_no_other(desk: Desk) -> None:
    called, go_on = threading.Event(), threading.Event()
    threads: list[str] = []
    returned: list[object] = []

    def block(consumer: Any, message: Any) -> None:
        threads.append(threading.current_thread().name)
        called.set()
        go_on.wait(20)
        returned.append(message)

    await desk.subscribe(message_listener=block)
    desk.deliver_each(b"0")
    await until(called.is_set, "the call")
    try:
        desk.link.engine.send_ping()
        desk.link.flush()
        await until(lambda: desk.peer.count(events.Pong) == 1, "the answer to a ping")
        other = await desk.subscribe()
        desk.deliver_each(b"1")
        assert await payloads(other, 1) == [b"1"]
        assert not returned
        assert threads[0] != threading.main_thread().name
    finally:
        go_on.set()


@pytest.mark.row("S0.30")
async def test_a_listener_that_raises_stops_nothing(
    desk: Desk, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []

    def listen(consumer: Any, message: Any) -> None:
        seen.append(message.data())
        if len(seen) == 1:
            raise RuntimeError("the application's fault")
        consumer.acknowledge(message)

    consumer = await desk.subscribe(message_listener=listener(kind, listen), ack_group_time_ms=0)
    with caplog.at_level(logging.ERROR):
        first, *others = desk.deliver_each(b"0", b"1", b"2")
        await until(lambda: len(seen) == 3, "three calls")
        await until(lambda: len(desk.acks()) == 2, "two acks")
    assert desk.acks() == [(LEDGER_ID, entry_id) for entry_id in others]
    assert first == 0
    assert desk.peer.count(events.Redeliver) == 0
    assert len([line for line in caplog.messages if "listener failed" in line]) == 1
    assert consumer.counters.messages_received == 3


async def test_the_log_does_not_say_that_a_readers_message_stays_unacknowledged(
    desk: Desk, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def listen(consumer: Any, message: Any) -> None:
        seen.append(repr(message))
        raise RuntimeError("the application's fault")

    reader = await desk.client.create_reader(
        TOPIC, MessageId.earliest, reader_listener=listener(kind, listen)
    )
    (entry_id,) = desk.deliver_each(b"0")
    await until(lambda: "listener failed" in caplog.text, "the error")
    (line,) = [line for line in caplog.messages if "listener failed" in line]
    assert "unacknowledged" not in line
    assert line.endswith(seen[0])
    await reader.close()
    assert desk.acks() == [(LEDGER_ID, entry_id)]


@pytest.mark.row("S0.31")
async def test_a_failure_in_taking_a_message_ends_that_round_only(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []
    consumer = await desk.subscribe(message_listener=lambda consumer, message: seen.append(message.data()))
    consumer.queue.messages = FailsOnce(consumer.queue.messages)
    with caplog.at_level(logging.ERROR):
        desk.deliver_each(b"0")
        await until(
            lambda: any("taking a message for the listener failed" in line for line in caplog.messages),
            "the failure",
        )
    assert seen == []
    desk.deliver_each(b"1")
    await until(lambda: seen == [b"0", b"1"], "both messages")


async def test_pausing_the_listener_keeps_messages_until_it_is_resumed(desk: Desk, kind: str) -> None:
    seen: list[bytes] = []
    consumer = await desk.subscribe(
        message_listener=listener(kind, lambda consumer, message: seen.append(message.data()))
    )
    consumer.pause_message_listener()
    consumer.pause_message_listener()
    desk.deliver_each(b"0", b"1")
    await until(lambda: len(consumer.queue) == 2, "two messages")
    assert seen == []
    consumer.resume_message_listener()
    consumer.resume_message_listener()
    await until(lambda: seen == [b"0", b"1"], "two calls")


async def test_a_listener_on_a_thread_may_ask_the_broker(desk: Desk) -> None:
    found: list[Any] = []

    def listen(consumer: Any, message: Any) -> None:
        found.extend((consumer.topic(), consumer.subscription_name(), consumer.is_connected()))
        found.append(consumer.get_last_message_id().ledger_id())
        consumer.acknowledge_cumulative(message)
        consumer.pause_message_listener()

    consumer = await desk.subscribe(message_listener=listen, ack_group_time_ms=0)
    desk.deliver_each(b"0", b"1")
    await until(lambda: len(found) >= 4 and desk.acks(), "the call")
    await until(lambda: len(consumer.queue) == 1, "the second message to wait")
    assert found == [consumer.topic(), "billing", True, -1]


async def test_a_listener_may_close_its_consumer(desk: Desk, kind: str) -> None:
    seen: list[bytes] = []

    def close_on_thread(consumer: Any, message: Any) -> None:
        seen.append(message.data())
        consumer.close()

    async def close_in_task(consumer: TopicConsumer, message: Any) -> None:
        seen.append(message.data())
        await consumer.close()

    await desk.subscribe(message_listener=close_in_task if kind == "task" else close_on_thread)
    desk.deliver_each(b"0", b"1")
    await until(lambda: desk.peer.count(events.CloseConsumer) == 1, "the closing")
    assert seen == [b"0"]


async def test_messages_of_a_lost_connection_do_not_reach_the_listener(desk: Desk) -> None:
    seen: list[bytes] = []
    consumer = await desk.subscribe(message_listener=lambda consumer, message: seen.append(message.data()))
    consumer.pause_message_listener()
    desk.deliver_each(b"old")
    await until(lambda: len(consumer.queue) == 1, "a message")
    desk.drop()
    await desk.resubscribed(2)
    consumer.resume_message_listener()
    desk.deliver_each(b"new")
    await until(lambda: seen == [b"new"], "the new one")


async def test_failover_consumers_are_notified_when_they_become_active(desk: Desk) -> None:
    told: list[tuple[str, int]] = []

    class Events:
        def became_active(self, consumer: Any, partition: int) -> None:
            told.append(("active", partition))
            raise RuntimeError("the application's fault")

        def became_inactive(self, consumer: Any, partition: int) -> None:
            told.append(("inactive", partition))

    consumer = await desk.subscribe(consumer_type=ConsumerType.Failover, consumer_event_listener=Events())
    assert consumer.is_active is None
    for active in (True, True, False):
        desk.link.engine.send_active_consumer_change(desk.consumer_id, is_active=active)
    desk.link.flush()
    await until(lambda: len(told) == 2, "two events")
    assert told == [("active", -1), ("inactive", -1)]
    assert consumer.is_active is False


async def test_the_end_of_the_topic_is_seen_and_the_queue_still_drained(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"last")
    desk.link.engine.send_reached_end_of_topic(desk.consumer_id)
    desk.link.flush()
    await until(consumer.has_reached_end_of_topic, "the end")
    assert await payloads(consumer, 1) == [b"last"]
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.row("S0.30")
async def test_a_listener_on_a_thread_that_exits_stops_nothing(desk: Desk) -> None:
    seen: list[bytes] = []

    def listen(consumer: Any, message: Any) -> None:
        seen.append(message.data())
        raise SystemExit(1)

    await desk.subscribe(message_listener=listen)
    desk.deliver_each(b"0", b"1")
    await until(lambda: seen == [b"0", b"1"], "two calls")


async def test_a_listener_that_ends_with_a_cancellation_of_its_own_gets_the_next_message(desk: Desk) -> None:
    seen: list[bytes] = []

    async def listen(consumer: Any, message: Any) -> None:
        seen.append(message.data())
        helper = asyncio.ensure_future(asyncio.Event().wait())
        helper.cancel()
        await helper

    await desk.subscribe(message_listener=listen)
    desk.link.engine.send_message(desk.consumer_id, ledger_id=LEDGER_ID, entry_id=0, entry=single(b"0"))
    desk.link.engine.send_message(desk.consumer_id, ledger_id=LEDGER_ID, entry_id=1, entry=single(b"1"))
    desk.link.flush()
    await until(lambda: seen == [b"0", b"1"], "both messages")


async def test_a_lambda_that_returns_a_coroutine_is_an_error_that_says_what_to_pass(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(message: Message) -> None:
        raise AssertionError("nothing runs this")

    consumer = await desk.subscribe(message_listener=lambda consumer, message: handle(message))
    desk.deliver_each(b"0")
    await until(lambda: "pass the coroutine function itself" in caplog.text, "the error")
    await desk.fence(consumer)
    assert desk.acks() == []
