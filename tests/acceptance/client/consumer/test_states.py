"""Against a running Vela: which calls a consumer allows in each state, and how it gets its name."""

from __future__ import annotations

import asyncio
import re

import pytest

from broker.doors.binary.wire import events
from tests.acceptance.client.consumer.consuming import link_of, publish
from tests.support.frame_relay import FrameRelay
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.options import ConsumerOptions
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.errors import AlreadyClosed, ConsumerBusy, InvalidConfiguration, NotConnected, ReadError, VelaError


async def receiving_raises(consumer: Consumer, error: type[VelaError]) -> None:
    for call in (consumer.receive, consumer.batch_receive):
        with pytest.raises(error):
            await call()
    for take in (consumer.receive_async, consumer.receive_nowait):
        with pytest.raises(error):
            take()


@pytest.mark.row("S0.32")
async def test_a_consumer_with_a_listener_refuses_receive(client: Client, topic: str) -> None:
    seen: list[bytes] = []
    consumer = await client.subscribe(
        topic, "s", message_listener=lambda consumer, message: seen.append(message.data())
    )
    consumer.pause_message_listener()
    await publish(client, topic, [b"for the listener"])
    await until(lambda: len(consumer.queue) == 1, "the message")
    await receiving_raises(consumer, InvalidConfiguration)
    with pytest.raises(InvalidConfiguration):
        await anext(consumer)
    assert seen == []
    consumer.resume_message_listener()
    await until(lambda: seen == [b"for the listener"], "the call")
    await receiving_raises(consumer, InvalidConfiguration)


@pytest.mark.row("S0.33")
async def test_receiving_works_while_ready_or_connecting(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    await publish(client, topic, [b"ready"])
    message = await consumer.receive(20_000)
    await consumer.acknowledge(message)
    link_of(consumer).abort(ReadError("cut by the test"))
    await until(lambda: consumer.state.value == "connecting", "the loss to be seen")
    waiting = asyncio.create_task(consumer.receive())
    await publish(client, topic, [b"later"])
    assert [message.data(), (await asyncio.wait_for(waiting, 20)).data()] == [b"ready", b"later"]
    assert consumer.state.value == "ready"


@pytest.mark.row("S0.33")
async def test_a_closing_or_closed_consumer_raises_an_error_that_says_so(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    await publish(client, topic, [b"left behind"])
    await until(lambda: len(consumer.queue) == 1, "a message")
    waits = await client.subscribe(topic, "t")
    waiting = waits.receive_async()
    for each in (consumer, waits):
        closing = asyncio.create_task(each.close())
        await asyncio.sleep(0)
        assert each.state.value == "closing"
        await receiving_raises(each, AlreadyClosed)
        await closing
        assert each.state.value == "closed"
        await receiving_raises(each, AlreadyClosed)
    with pytest.raises(AlreadyClosed):
        await waiting


@pytest.mark.row("S0.33")
async def test_a_consumer_that_never_connected_raises_an_error_that_says_so(
    client: Client, topic: str
) -> None:
    holder = await client.subscribe(topic, "s")
    refused = TopicConsumer(client, topic, ConsumerOptions(subscription_name="s"))
    assert refused.state.value == "uninitialized"
    await receiving_raises(refused, NotConnected)
    with pytest.raises(ConsumerBusy):
        await refused.open()
    assert refused.state.value == "failed"
    await receiving_raises(refused, NotConnected)
    await refused.close()
    await receiving_raises(refused, AlreadyClosed)
    await publish(client, topic, [b"for the holder"])
    assert (await holder.receive(20_000)).data() == b"for the holder"


@pytest.mark.row("S0.35")
async def test_a_consumer_without_a_name_gets_five_hexadecimal_digits_and_keeps_them(
    relayed: Client, relay: FrameRelay, topic: str
) -> None:
    consumer = await relayed.subscribe(topic, "s")
    name = consumer.consumer_name()
    assert re.fullmatch("[0-9a-f]{5}", name)
    await relay.cut()
    await until(lambda: relay.count(events.Subscribe) == 2 and consumer.is_connected(), "the reconnect")
    named = await relayed.subscribe(topic, "t", consumer_name="mine")
    assert (consumer.consumer_name(), named.consumer_name()) == (name, "mine")
    assert [event.consumer_name for event in relay.of(events.Subscribe)] == [name, name, "mine"]
