"""Invariants while eight threads receive and the link breaks every 50 ms."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from tests.integration.client.consumer.backlog import Backlog
from tests.integration.client.consumer.desk import Desk, owed
from tests.support.waiting import until
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.errors import AlreadyClosed
from vela.message import Message

THREADS = 8
ENTRIES = 3000


class Workers:
    """Threads that receive and acknowledge, and now and then cancel a receive."""

    def __init__(self, consumer: TopicConsumer, *, gives_up: bool) -> None:
        self.consumer = consumer
        self.handed_out: list[tuple[int, int, int]] = []
        """(connection, entry, index in its batch) of every message that a thread received."""
        self.payloads: set[bytes] = set()
        self.given_up = 0
        self._gives_up = gives_up
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(seed,)) for seed in range(THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    async def joined(self) -> None:
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()

    def _work(self, seed: int) -> None:
        chance = random.Random(seed)
        while True:
            patience_s = chance.random() * 0.002 if self._gives_up and chance.random() < 0.2 else 20.0
            call = asyncio.run_coroutine_threadsafe(self._receive(patience_s), self._loop)
            try:
                message = call.result(30)
            except AlreadyClosed:
                return
            if message is None:
                continue
            with self._lock:
                entry = message.entry
                self.handed_out.append((entry.generation, entry.entry_id, message.body.batch_index))
                self.payloads.add(message.data())
            self._loop.call_soon_threadsafe(self.consumer.acknowledge, message)

    async def _receive(self, patience_s: float) -> Message | None:
        """Receive, and cancel the call after `patience_s`, whatever it is doing then."""
        receiving = asyncio.create_task(self.consumer.receive())
        await asyncio.wait((receiving,), timeout=patience_s)
        receiving.cancel()
        try:
            return await receiving
        except asyncio.CancelledError:
            self.given_up += 1
            return None


async def run(desk: Desk, *, gives_up: bool, breaks: bool) -> tuple[Backlog, Workers]:
    backlog = Backlog(desk, ENTRIES)
    consumer = await desk.subscribe(receiver_queue_size=100, start_paused=True)
    workers = Workers(consumer, gives_up=gives_up)
    workers.start()
    # Wait here, before any message comes: later, on a fast machine, no receive might have to wait.
    await until(lambda: workers.given_up > 0 or not gives_up, "a receive to be given up")
    consumer.resume()
    entries = len(backlog.sizes)
    breaking = asyncio.create_task(break_links(desk)) if breaks else None
    await until(lambda: len(backlog.acked) == entries, "every entry to be acknowledged", timeout_s=60)
    if breaking is not None:
        breaking.cancel()
    await until(consumer.is_connected, "the consumer")
    await until(lambda: desk.permits + owed(consumer) + len(consumer.queue) == 100, "the permits to add up")
    await consumer.close()
    await workers.joined()
    assert (workers.given_up > 0) is gives_up
    return backlog, workers


async def break_links(desk: Desk) -> None:
    while True:
        await asyncio.sleep(0.05)
        desk.link.drop()


@pytest.mark.row("S0.22", "S0.43")
async def test_eight_threads_receive_every_message_once(desk: Desk) -> None:
    backlog, workers = await run(desk, gives_up=False, breaks=False)
    assert len(workers.handed_out) == len(set(workers.handed_out)) == backlog.messages
    assert sum(desk.flows) <= backlog.messages + 100


@pytest.mark.row("S0.34")
async def test_nothing_is_lost_while_threads_give_up_receives(desk: Desk) -> None:
    backlog, workers = await run(desk, gives_up=True, breaks=False)
    assert len(workers.handed_out) == len(set(workers.handed_out)) == backlog.messages


@pytest.mark.row("I1", "I7")
async def test_nothing_is_lost_or_doubled_while_links_break(desk: Desk) -> None:
    backlog, workers = await run(desk, gives_up=True, breaks=True)
    assert desk.peer.links[1:], "no link was broken"
    # Each message at most once for each connection.
    assert len(workers.handed_out) == len(set(workers.handed_out))
    assert len(workers.payloads) == backlog.messages
