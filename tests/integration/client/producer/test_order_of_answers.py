"""The order of answers, with Apache's client and Vela's: receipts come in order, and the client refuses at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pulsar
import pytest

import vela
from broker.doors.binary.wire import events
from tests.support.scripted_peer import Link
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until

BATCH = {"batching_enabled": True, "batching_max_messages": 3, "batching_max_publish_delay_ms": 60_000}
BOTH = pytest.mark.parametrize("api", [pulsar, vela], ids=lambda api: api.__name__)


class Sending:
    """A producer with room for three messages, and a peer that answers when the test says so."""

    def __init__(self, producer: Any, store: StoringPeer) -> None:
        self.answers: list[tuple[str, str]] = []
        self._producer = producer
        self._store = store
        self._held: list[tuple[Link, events.Send]] = []
        store.on_send = lambda link, event: self._held.append((link, event))

    async def send(self, name: str, content: bytes = b"") -> None:
        def note(result: Any, _: object) -> None:
            self.answers.append((name, result.name))

        await asyncio.to_thread(self._producer.send_async, content or name.encode(), note)

    async def receipts(self, messages: int) -> None:
        """Send receipts for this many messages, once all have arrived."""
        await until(lambda: sum(event.messages for _, event in self._held) == messages, "the sends")
        for link, event in self._held:
            self._store.accept(link, event)
            link.flush()


@asynccontextmanager
async def sending(api: ModuleType, store: StoringPeer, **options: Any) -> AsyncIterator[Sending]:
    client = await asyncio.to_thread(api.Client, store.peer.url)
    try:
        yield Sending(
            await asyncio.to_thread(
                lambda: client.create_producer(
                    "persistent://public/default/t", max_pending_messages=3, **options
                )
            ),
            store,
        )
    finally:
        await asyncio.to_thread(client.close)


@BOTH
@pytest.mark.parametrize("options", [{}, BATCH], ids=["alone", "batched"])
async def test_a_full_queue_refuses_at_once_and_receipts_come_in_order(
    api: ModuleType, options: dict[str, Any], store: StoringPeer
) -> None:
    async with sending(api, store, **options) as given:
        for name in ("one", "two", "three", "four"):
            await given.send(name)
        await until(lambda: given.answers, "the refusal")
        assert given.answers == [("four", "ProducerQueueIsFull")]
        await given.receipts(3)
        await until(lambda: len(given.answers) == 4, "the receipts")
        assert given.answers[1:] == [("one", "Ok"), ("two", "Ok"), ("three", "Ok")]


@BOTH
async def test_a_message_too_large_is_refused_at_once_and_receipts_come_in_order(
    api: ModuleType, store: StoringPeer
) -> None:
    async with sending(api, store) as given:
        await given.send("one")
        await given.send("large", bytes(store.peer.max_message_bytes + 1))
        await given.send("two")
        await until(lambda: given.answers, "the refusal")
        assert given.answers == [("large", "MessageTooBig")]
        await given.receipts(2)
        await until(lambda: len(given.answers) == 3, "the receipts")
        assert given.answers[1:] == [("one", "Ok"), ("two", "Ok")]
