"""Without a queue at most one message is under way, even if receives are cancelled and links lost at any step (I17)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.acceptance.client.consumer.consuming import numbers, publish
from tests.acceptance.client.sent_frames import PermitAccount
from tests.support.frame_relay import FrameRelay
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.message import Message
from vela.options import InitialPosition

ROUNDS = 5


class Racer:
    """A consumer whose receives are cancelled and whose links are lost. It acks each message with a receipt."""

    def __init__(self, relay: FrameRelay, consumer: TopicConsumer, permits: PermitAccount) -> None:
        self.taken: list[bytes] = []
        self._relay = relay
        self._consumer = consumer
        self._permits = permits

    async def take(self) -> None:
        """Receive undisturbed."""
        await self._took(await asyncio.wait_for(self._consumer.receive(), 10))

    async def give_up_at_once(self) -> None:
        """Cancel a receive before its permit can have been sent."""
        receiving = asyncio.create_task(self._consumer.receive())
        await asyncio.sleep(0)
        await self._given_up(receiving)

    async def give_up_while_the_message_is_under_way(self) -> None:
        """Cancel a receive, so that its message arrives when no receive waits."""
        self._relay.flows_to_client.clear()
        receiving = asyncio.create_task(self._consumer.receive())
        await asyncio.sleep(0)
        await self._given_up(receiving)
        self._relay.flows_to_client.set()
        await until(
            lambda: len(self._consumer.queue) == 1 or self._permits.outstanding == 0,
            "the message, or no permit",
        )

    async def lose_the_link_with_a_message_in_hand(self) -> None:
        """Lose the link while a message that came over it waits for the next receive."""
        await self.give_up_while_the_message_is_under_way()
        await self._relay.cut()

    async def lose_the_link_while_receiving(self) -> None:
        """Lose the link during a receive, which continues over the next link."""
        self._relay.flows_to_client.clear()
        receiving = asyncio.create_task(self._consumer.receive())
        await asyncio.sleep(0)
        await self._relay.cut()
        self._relay.flows_to_client.set()
        await self._took(await asyncio.wait_for(receiving, 10))

    async def lose_the_link_and_give_up(self) -> None:
        """Lose the link and cancel the receive, before either has an effect."""
        receiving = asyncio.create_task(self._consumer.receive())
        await asyncio.sleep(0)
        await self._relay.cut()
        await self._given_up(receiving)

    async def _given_up(self, receiving: asyncio.Task[Message]) -> None:
        receiving.cancel()
        await asyncio.wait([receiving])
        if not receiving.cancelled():
            await self._took(receiving.result())

    async def _took(self, message: Message) -> None:
        self.taken.append(message.data())
        async with asyncio.timeout(10):
            await self._consumer.acknowledge(message)


@pytest.mark.row("I17")
async def test_one_message_is_under_way_at_most(relayed: Client, relay: FrameRelay, topic: str) -> None:
    permits = PermitAccount(relay)
    consumer = await relayed.subscribe(
        topic,
        "s",
        receiver_queue_size=0,
        initial_position=InitialPosition.Earliest,
        ack_receipt_enabled=True,
        ack_group_time_ms=0,
    )
    assert isinstance(consumer, TopicConsumer)
    racer = Racer(relay, consumer, permits)
    steps: list[Callable[[], Awaitable[None]]] = [
        racer.take,
        racer.give_up_at_once,
        racer.give_up_while_the_message_is_under_way,
        racer.lose_the_link_with_a_message_in_hand,
        racer.lose_the_link_while_receiving,
        racer.lose_the_link_and_give_up,
    ] * ROUNDS
    sent = numbers(len(steps))
    await publish(relayed, topic, sent)
    random.Random(17).shuffle(steps)
    for step in steps:
        await step()
        assert permits.outstanding + len(consumer.queue) <= 1, step
        assert permits.most_outstanding <= 1, step
    while len(racer.taken) < len(sent):
        await racer.take()
    assert racer.taken == sent
