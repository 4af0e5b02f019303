"""What is made on one event loop works on that one alone."""

from __future__ import annotations

import asyncio

from vela.errors import InvalidConfiguration

__all__ = ["require_loop"]


def require_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Raises InvalidConfiguration when another event loop runs than this one, or none.

    For calls that wait, and where a call has failed: what an application does for every message has no time for it.
    """
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is not loop:
        raise InvalidConfiguration(
            "this was made on another event loop, and works on that one alone: make a client of vela.aio for each loop "
            "(each asyncio.run), or use vela.Client, which has one of its own"
        )
