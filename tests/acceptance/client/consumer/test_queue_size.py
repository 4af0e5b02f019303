"""The size of a consumer's queue, and what a whole Vela shows about a full queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.acceptance.client.consumer.consuming import becomes, data, numbers, publish, take
from tests.acceptance.client.sent_frames import PermitAccount, fence
from tests.support.console import ConsoleSession
from tests.support.vela import VelaProcess
from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.errors import InvalidConfiguration


@pytest.mark.row("S2.1")
@pytest.mark.parametrize("options", [{}, {"receiver_queue_size": None}])
async def test_the_default_queue_size_is_1000_and_a_negative_one_is_refused(
    relayed: Client, permits: PermitAccount, topic: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidConfiguration, match="0 or more"):
        await relayed.subscribe(topic, "s", receiver_queue_size=-1)
    consumer = await relayed.subscribe(topic, "s", **options)  # the refused consumer left nothing behind
    await fence(consumer)
    assert permits.flows == [1000]


@pytest.mark.row("S2.3")
async def test_a_consumer_that_is_slow_to_ask_is_healthy_and_shown_to_ask_for_none(
    client: Client, relayed: Client, permits: PermitAccount, topic: str, shared_vela: VelaProcess
) -> None:
    slow = await relayed.subscribe(topic, "slow", receiver_queue_size=4)
    quick = await client.subscribe(topic, "quick", receiver_queue_size=4)
    await publish(client, topic, numbers(6))
    await take(quick, 6)
    console = await asyncio.to_thread(ConsoleSession.logged_in, shared_vela)

    async def shown(consumer: Consumer) -> str:
        address = f"/t/{topic.replace('://', '/')}/s/{consumer.subscription_name()}"
        text = (await asyncio.to_thread(console.get, address)).text
        assert "✕ blocked" not in text
        return text if consumer.consumer_name() in text else ""

    async def asks_for_none() -> bool:
        return "asks for none" in await shown(slow)

    async def asks_for_some() -> bool:
        text = await shown(quick)
        return bool(text) and "asks for none" not in text

    await becomes(asks_for_none, "the console's words for a slow consumer")
    await becomes(asks_for_some, "the console's words for a consumer that asks")
    assert (permits.flows, permits.messages, slow.available_permits) == ([4], 4, 0)
    assert data(await take(slow, 6)) == numbers(6)
    assert sum(permits.flows) > 4
