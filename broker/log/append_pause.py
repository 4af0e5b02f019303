"""Standing still: nothing of a topic is on its way to PostgreSQL while an operator's act fixes or ends its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.topics.topic import Topic

__all__ = ["appends_held"]

_LOOK_EVERY_S = 0.002  # an act may wait; the append path carries no event for it


@asynccontextmanager
async def appends_held(topic: Topic) -> AsyncIterator[None]:
    """Inside, no append of the topic is in flight and none begins; what is sent meanwhile waits in its queue.

    Waits for the commit under way, whose receipts go out first: a producer closed before would send them again.
    """
    topic.log.is_held = True
    try:
        while topic.is_open and (topic.is_taken or topic.log.in_flight is not None):  # noqa: ASYNC110 - see above
            await asyncio.sleep(_LOOK_EVERY_S)
        yield
    finally:
        topic.log.is_held = False
        if topic.is_open and topic.log.queue:
            topic.services.writer.submit(topic)
