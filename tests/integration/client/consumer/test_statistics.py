"""Statistics of consumers and producers, as an object and as lines in the log."""

from __future__ import annotations

import logging

import pytest

from tests.integration.client.consumer.desk import TOPIC, Desk, desk_running
from tests.support.waiting import until


async def test_statistics_count_received_waiting_and_failed_messages(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10)
    desk.deliver_each(b"abc", b"de", b"f")
    await until(lambda: consumer.statistics().messages_waiting == 3, "three messages")
    await consumer.receive()
    desk.deliver(b"garbage")
    await until(lambda: consumer.statistics().receives_failed == 1, "the discard")
    found = consumer.statistics()
    assert (found.messages_received, found.bytes_received, found.messages_delivered) == (1, 3, 3)
    assert (found.messages_waiting, found.permits_available) == (2, 8)
    assert found.entries_discarded == {"CHECKSUM_MISMATCH": 1}


async def test_statistics_are_logged_at_the_interval_of_the_option(caplog: pytest.LogCaptureFixture) -> None:
    async with desk_running(stats_interval_in_seconds=0.02) as desk:
        with caplog.at_level(logging.INFO, "vela"):
            consumer = await desk.subscribe(consumer_name="c1")
            producer = await desk.client.create_producer(TOPIC, producer_name="p1")
            await producer.send(b"x")
            desk.deliver_each(b"abc")
            await consumer.receive()
            await until(lambda: "1 received" in caplog.text and "1 stored" in caplog.text, "both lines")
    assert f"consumer c1 of {TOPIC}, subscription billing:" in caplog.text
    assert f"producer p1 of {TOPIC}:" in caplog.text


async def test_an_interval_of_zero_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with desk_running(stats_interval_in_seconds=0) as desk:
        with caplog.at_level(logging.INFO, "vela"):
            consumer = await desk.subscribe()
            desk.client._statistics.write(1.0)
            assert "msg/s" in caplog.text
            caplog.clear()
            desk.deliver_each(b"abc")
            await consumer.receive()
            await desk.fence(consumer)
        assert desk.client._statistics._task is None
