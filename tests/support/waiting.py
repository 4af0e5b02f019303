"""Bounded waits on conditions, for what happens in other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

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
