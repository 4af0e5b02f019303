"""Wait a limited time for conditions that other processes or other tasks of the event loop fulfil."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["until", "wait_until"]

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, *, timeout_s: float = 10.0, every_s: float = 0.02) -> T:
    """Return the condition's first truthy value; fail with `what` after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(every_s)


async def until(
    condition: Callable[[], T], what: str, *, timeout_s: float = 10.0, every_s: float = 0.005
) -> T:
    """Like `wait_until`, for conditions that change on the test's event loop."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        if value := condition():
            return value
        if loop.time() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        await asyncio.sleep(every_s)
