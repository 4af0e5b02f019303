"""Calls that wait for the next arrival."""

from __future__ import annotations

import asyncio

import pytest

from vela.aio.deliveries.arrivals import Arrivals


async def test_an_arrival_at_the_moment_of_the_time_limit_is_no_error() -> None:
    arrivals = Arrivals()
    waiting = asyncio.create_task(arrivals.next(0))
    await asyncio.sleep(0)
    # The time limit cancels the wait in the next turn of the loop, and the call sees it in the turn after that.
    asyncio.get_running_loop().call_soon(arrivals.wake)
    await waiting
    assert not arrivals._waiting


async def test_a_cancelled_wait_is_forgotten() -> None:
    arrivals = Arrivals()
    waiting = asyncio.create_task(arrivals.next(60))
    await asyncio.sleep(0)
    assert arrivals._waiting
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not arrivals._waiting
