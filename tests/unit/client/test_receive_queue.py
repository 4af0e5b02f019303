"""The queue of a consumer while a listener's thread takes from it."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.errors import AlreadyClosed, Timeout
from vela.message import Message, ReceivedEntry
from vela.options import ConsumerBatchReceivePolicy

MESSAGES = 20_000


def message(entry_id: int) -> Message:
    body: Any = SimpleNamespace(payload=b"")
    return Message(body, ReceivedEntry("t", 1, entry_id))


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Make the interpreter switch between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
async def test_removed_messages_are_not_taken_and_the_rest_is_taken_once_in_order() -> None:
    queue = ReceiveQueue(lambda _: None, lambda _: True, lambda: None)
    queue.put([message(number) for number in range(MESSAGES)])
    taken: list[int] = []
    ended = threading.Event()

    def take() -> None:
        while not (ended.is_set() and not queue.messages):
            try:
                with queue.taking:
                    taken.append(queue.messages.popleft().entry.entry_id)
            except IndexError:
                continue

    listener = threading.Thread(target=take)
    listener.start()
    removed: list[int] = []
    while queue.messages:
        removed += [each.entry.entry_id for each in queue.remove(lambda each: each.entry.entry_id % 7 == 0)]
    ended.set()
    listener.join(20)
    assert taken == sorted(taken)
    assert sorted(taken + removed) == list(range(MESSAGES))


@pytest.fixture
async def complaints() -> list[str]:
    """The event loop's complaints about errors that were never retrieved."""
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context["message"]))
    return found


async def test_an_end_that_no_receive_awaits_is_not_logged(complaints: list[str]) -> None:
    queue = ReceiveQueue(lambda _: None, lambda _: True, lambda: None)
    waiting = [asyncio.create_task(queue.receive(each)) for each in (None, 2.0**70, 0)]
    queue.receive_async()
    await asyncio.sleep(0)
    with pytest.raises(Timeout):
        await waiting.pop()
    queue.end(AlreadyClosed("closed"))
    queue.receive_async()  # a receive after the end
    for task in waiting:
        task.cancel()  # too late: the receives have already failed
    await asyncio.wait(waiting)
    waiting.clear()
    gc.collect()
    assert complaints == []


async def test_a_message_that_a_cancelled_receive_gives_back_ends_a_batch_receive() -> None:
    queue = ReceiveQueue(lambda _: None, lambda _: True, lambda: None)
    policy = ConsumerBatchReceivePolicy(max_num_message=1, max_num_bytes=-1, timeout_ms=-1)
    single = asyncio.create_task(queue.receive(None))
    batch = asyncio.create_task(queue.receive_batch(policy, lambda: False))
    await asyncio.sleep(0)
    sent = message(1)
    queue.put([sent])
    single.cancel()
    async with asyncio.timeout(5):
        assert await batch == [sent]
