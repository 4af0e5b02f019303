"""Latency counts from the intended send time, even if the load generator was late."""

from __future__ import annotations

import asyncio
import time

import pytest

from bench.load import open_loop
from bench.load.open_loop import OpenLoop
from bench.load.peers.binary import PeerFailed

PER_S = 2000.0


async def test_a_stall_is_charged_to_every_message_it_delays() -> None:
    loop = OpenLoop(per_s=PER_S, warm_up_s=0.0, run_s=0.1)
    stall_s = 0.05

    def send(number: int) -> None:
        if number == 20:
            until = time.perf_counter() + stall_s
            while time.perf_counter() < until:
                pass  # like a generator that does not get the processor
        loop.arrived(number)

    latencies = await loop.run(send)
    delayed = [value for value in latencies.values_ms if value >= 1.0]
    # In 50 ms at 2,000 messages a second, a hundred messages were due, and none of them was fast.
    assert len(delayed) >= 90
    assert max(latencies.values_ms) >= 1000 * stall_s
    assert max(latencies.lateness_ms) >= 1000 * stall_s * 0.9


async def test_the_warm_up_is_not_counted() -> None:
    loop = OpenLoop(per_s=PER_S, warm_up_s=0.01, run_s=0.02)
    latencies = await loop.run(loop.arrived)
    assert len(latencies.values_ms) == round(PER_S * 0.02)


async def test_a_repeated_delivery_counts_once() -> None:
    loop = OpenLoop(per_s=PER_S, warm_up_s=0.0, run_s=0.01)

    def send(number: int) -> None:
        loop.arrived(number)
        loop.arrived(0)

    assert len((await loop.run(send)).values_ms) == round(PER_S * 0.01)


async def test_a_message_that_never_arrives_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "_PATIENCE_S", 0.01)
    loop = OpenLoop(per_s=PER_S, warm_up_s=0.0, run_s=0.005)
    with pytest.raises(PeerFailed, match="1 of 10"):
        await loop.run(lambda number: loop.arrived(number) if number != 3 else None)


def test_the_event_loop_of_a_run_keeps_times_below_a_millisecond() -> None:
    async def lateness() -> float:
        began = time.perf_counter()
        for _ in range(10):
            await asyncio.sleep(0.0002)
        return time.perf_counter() - began

    # epoll alone would round each sleep up to a whole millisecond.
    assert min(open_loop.run_exactly(lateness()) for _ in range(20)) < 0.008
