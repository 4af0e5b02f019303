"""Objects are bound to the event loop that created them."""

from __future__ import annotations

import asyncio

from vela.errors import InvalidConfiguration

__all__ = ["require_loop"]


def require_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Raise InvalidConfiguration unless `loop` is the running event loop.

    Use it in calls that wait, and after a call has failed. It is too slow for calls that are made for every message.
    """
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is not loop:
        raise InvalidConfiguration(
            "this object belongs to another event loop: create a vela.aio client for each loop (each asyncio.run), or "
            "use vela.Client, which has its own loop"
        )
