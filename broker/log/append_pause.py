"""Pause a topic's appends, so that none is in flight while the topic is terminated, unloaded or deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog
    from broker.log.writer import Writer

__all__ = ["appends_paused"]

_LOOK_EVERY_S = 0.002  # a pause polls, because pauses are rare, and an event would cost every append a call


@asynccontextmanager
async def appends_paused(log: TopicLog, writer: Writer) -> AsyncIterator[None]:
    """Pause a topic's appends: inside the block, none is in flight and none starts. New sends wait in the queue.

    Before the block, wait for the commit in flight and its receipts. A producer that is closed before it gets its
    receipts sends the same messages again.
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
