"""Pause a topic's appends during a termination, an unload or a deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog
    from broker.log.writer import Writer

__all__ = ["appends_paused"]

# Polling is enough, because pauses are rare.
_LOOK_EVERY_S = 0.002


@asynccontextmanager
async def appends_paused(log: TopicLog, writer: Writer) -> AsyncIterator[None]:
    """Pause a topic's appends inside the block. New sends wait in the queue.

    The block begins after the append in flight is committed and its receipts are sent.
    """
    log.is_paused = True
    try:
        while log.is_open and (log.is_taken or log.in_flight is not None):  # noqa: ASYNC110 - see above
            await asyncio.sleep(_LOOK_EVERY_S)
        yield
    finally:
        log.is_paused = False
        if log.is_open and log.queue:
            writer.submit(log)
