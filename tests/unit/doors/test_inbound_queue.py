"""The queue between the server and a socket's consumer."""

from __future__ import annotations

import asyncio

from broker.doors.http.inbound_queue import MAX_BYTES, MAX_EVENTS, RESUME_EVENTS, InboundQueue
from tests.unit.doors.reading import Reading


async def test_reading_stops_at_the_limit_and_resumes_below_the_lower_one() -> None:
    reading = Reading()
    queue = InboundQueue(pause=reading.pause, resume=reading.resume, on_empty=lambda: None)
    for number in range(MAX_EVENTS):
        assert reading.on
        queue.put_nowait({"type": str(number)})
    assert not reading.on
    for number in range(MAX_EVENTS - RESUME_EVENTS):
        assert not reading.on
        assert await queue.get() == {"type": str(number)}
    assert reading.on


async def test_bytes_count_for_the_limit_too() -> None:
    reading = Reading()
    queue = InboundQueue(pause=reading.pause, resume=reading.resume, on_empty=lambda: None)
    queue.put_nowait({"type": "a"}, MAX_BYTES)
    assert not reading.on
    await queue.get()
    assert reading.on


async def test_a_waiting_caller_wakes_and_a_cancelled_one_loses_nothing() -> None:
    queue = InboundQueue(pause=lambda: None, resume=lambda: None, on_empty=lambda: None)
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    again = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.put_nowait({"type": "a"})
    assert await again == {"type": "a"}
