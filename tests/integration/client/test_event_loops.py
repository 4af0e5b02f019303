"""Using an object on another event loop raises an error that says so, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

import vela
from tests.support.scripted_peer import ScriptedPeer
from vela.aio import Client

TOPIC = "persistent://public/default/t"
ID = vela.MessageId(-1, 1, 1)


class Elsewhere:
    """A client and the objects that it creates, on an event loop that does not run now."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.made: dict[str, Any] = {}
        self.loop.run_until_complete(self._make())

    async def _make(self) -> None:
        peer = await self.stack.enter_async_context(ScriptedPeer.started())
        client = await self.stack.enter_async_context(Client(peer.url))
        self.made = {
            "client": client,
            "producer": await client.create_producer(TOPIC),
            "batching": await client.create_producer(TOPIC, batching_enabled=True),
            "consumer": await client.subscribe(TOPIC, "s"),
            "several": await client.subscribe([TOPIC, f"{TOPIC}2"], "s"),
            "queueless": await client.subscribe(TOPIC, "z", receiver_queue_size=0),
            "reader": await client.create_reader(TOPIC, vela.MessageId.earliest),
            "view": await client.create_table_view(TOPIC),
        }

    def end(self) -> None:
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()


CALLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "create_producer": lambda made: made["client"].create_producer(TOPIC),
    "get_topic_partitions": lambda made: made["client"].get_topic_partitions(TOPIC),
    "send": lambda made: made["producer"].send(b"x"),
    "send with a key": lambda made: made["producer"].send(b"x", partition_key="k"),
    "send in a batch": lambda made: made["batching"].send(b"x"),
    "flush": lambda made: made["producer"].flush(),
    "close of a producer": lambda made: made["producer"].close(),
    "receive": lambda made: made["consumer"].receive(),
    "receive with a time limit": lambda made: made["consumer"].receive(100),
    "receive without a queue": lambda made: made["queueless"].receive(),
    "receive of several": lambda made: made["several"].receive(),
    "receive_async": lambda made: made["consumer"].receive_async(),
    "batch_receive": lambda made: made["consumer"].batch_receive(),
    "async for": lambda made: anext(made["consumer"]),
    "acknowledge": lambda made: made["consumer"].acknowledge(ID),
    "negative_acknowledge": lambda made: made["consumer"].negative_acknowledge(ID),
    "seek": lambda made: made["consumer"].seek(0),
    "seek of several": lambda made: made["several"].seek(0),
    "has_message_available": lambda made: made["consumer"].has_message_available(),
    "get_last_message_id": lambda made: made["consumer"].get_last_message_id(),
    "unsubscribe": lambda made: made["consumer"].unsubscribe(),
    "close of a consumer": lambda made: made["consumer"].close(),
    "close of several": lambda made: made["several"].close(),
    "read_next": lambda made: made["reader"].read_next(),
    "close of a reader": lambda made: made["reader"].close(),
    "close of a view": lambda made: made["view"].close(),
    "close": lambda made: made["client"].close(),
    "shutdown": lambda made: made["client"].shutdown(),
}


async def outcome(call: Callable[[dict[str, Any]], Any], made: dict[str, Any]) -> None:
    async with asyncio.timeout(5):
        value = call(made)
        if inspect.isawaitable(value):
            await value


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    elsewhere = Elsewhere()
    yield elsewhere
    elsewhere.end()


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_another_loop_raises_an_error_and_leaves_no_coroutine(
    name: str, is_closed: bool, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with monkeypatch.context() as patched:
            # asyncio.run leaves a closed loop. This loop only looks closed, so that sockets can still be closed later.
            patched.setattr(elsewhere.loop, "_closed", is_closed)
            with pytest.raises(vela.InvalidConfiguration, match="belongs to another event loop"):
                asyncio.run(outcome(CALLS[name], elsewhere.made))
        gc.collect()
    assert not [each for each in warned if "never awaited" in str(each.message)]


def test_a_client_used_on_another_loop_continues_on_its_own(elsewhere: Elsewhere) -> None:
    for call in CALLS.values():
        with pytest.raises(vela.InvalidConfiguration):
            asyncio.run(outcome(call, elsewhere.made))
    producer, consumer = elsewhere.made["producer"], elsewhere.made["consumer"]
    assert isinstance(elsewhere.loop.run_until_complete(producer.send(b"y")), vela.MessageId)
    assert not elsewhere.loop.run_until_complete(consumer.has_message_available())
