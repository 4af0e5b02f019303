"""Listeners that fail, with a whole Vela."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.acceptance.client.consumer.consuming import all_acknowledged, becomes, numbers, publish, take
from tests.support.fails_once import FailsOnce
from tests.support.waiting import until
from vela.aio.client import Client
from vela.message import Message


@pytest.fixture(params=["thread", "task"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def listener(kind: str, function: Any) -> Any:
    async def listen(consumer: Any, message: Message) -> None:
        function(consumer, message)

    return listen if kind == "task" else function


@pytest.mark.row("S0.30")
async def test_a_listener_that_raises_stops_nothing(
    client: Client, topic: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []

    def listen(view: Any, message: Message) -> None:
        seen.append(message.data())
        if len(seen) == 1:
            raise RuntimeError("the application's fault")
        view.acknowledge(message)

    consumer = await client.subscribe(topic, "s", message_listener=listener(kind, listen))
    with caplog.at_level(logging.ERROR, "vela"):
        await publish(client, topic, numbers(3))
        await until(lambda: seen == numbers(3), "three calls")
    assert [line.partition(";")[0] for line in caplog.messages] == ["the message listener failed"]
    assert not await all_acknowledged(consumer)
    await consumer.close()
    again = await client.subscribe(topic, "s")
    (failed,) = await take(again, 1)
    assert failed.data() == b"0"
    await becomes(lambda: all_acknowledged(again), "the ack of the message that was left")


@pytest.mark.row("S0.31")
async def test_a_failure_in_taking_a_message_ends_that_round_only(
    client: Client, topic: str, kind: str
) -> None:
    seen: list[bytes] = []
    consumer = await client.subscribe(
        topic, "s", message_listener=listener(kind, lambda _, message: seen.append(message.data()))
    )
    failing = consumer.queue.messages = FailsOnce()
    await publish(client, topic, [b"0"])
    await until(lambda: failing.has_failed, "the failure")
    await publish(client, topic, [b"1"])
    await until(lambda: seen == [b"0", b"1"], "both messages")
