"""One consumer's part of a queue, and the messages that a seek holds back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.aio.deliveries.untaken import Untaken
from vela.message import Message, ReceivedEntry


def message(receiver: object, entry_id: int, *, generation: int = 1) -> Message:
    body: Any = SimpleNamespace(payload=b"")
    entry = ReceivedEntry("t", 1, entry_id, receiver=receiver)
    entry.generation = generation
    return Message(body, entry)


def common_queue() -> ReceiveQueue:
    return ReceiveQueue(lambda _: None, lambda each: each.entry.generation == 1, lambda: None)


def ids(messages: Any) -> list[int]:
    return [each.entry.entry_id for each in messages]


async def test_a_consumer_finds_and_removes_only_its_own_messages() -> None:
    queue = common_queue()
    one, other = Untaken("one", queue), Untaken("other", queue)
    one.put([message("one", 0), message("one", 1)])
    other.put([message("other", 0), message("other", 2)])
    assert ids(one.find({(1, 0), (1, 2)})) == [0]
    assert ids(one.remove({(1, 0), (1, 2)})) == [0]
    assert (ids(one.clear()), ids(queue.messages)) == ([1], [0, 2])


async def test_a_seek_holds_back_waiting_and_arriving_messages_of_its_consumer() -> None:
    queue = common_queue()
    one, other = Untaken("one", queue), Untaken("other", queue)
    one.put([message("one", 0)])
    other.put([message("other", 5)])
    one.hold()
    one.put([message("one", 1)])
    assert (one.is_held, ids(queue.messages)) == (True, [5])
    assert (ids(one.find({(1, 0), (1, 1)})), ids(one.remove({(1, 0)}))) == ([0, 1], [0])
    one.release()
    assert (one.is_held, ids(queue.messages)) == (False, [5, 1])


async def test_held_messages_of_an_earlier_connection_are_dropped() -> None:
    queue = common_queue()
    one = Untaken("one", queue)
    one.hold()
    waiting = asyncio.ensure_future(one.until_released())
    one.put([message("one", 0, generation=0), message("one", 1)])
    one.release()
    await waiting
    assert ids(queue.messages) == [1]


async def test_messages_dropped_during_a_seek_do_not_come_back() -> None:
    queue = common_queue()
    one = Untaken("one", queue)
    one.put([message("one", 0)])
    one.hold()
    one.put([message("one", 1)])
    assert ids(one.clear()) == [0, 1]
    one.release()
    assert (one.has_any(), ids(queue.messages)) == (False, [])
