"""The topics that store the messages of an act's topic: the topic itself, or its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import life as store

if TYPE_CHECKING:
    from broker.acts.kinds.base import ActContext

__all__ = ["members"]


async def members(context: ActContext) -> list[TopicName]:
    """Return the name of an act's topic, or the names of its partitions if it is partitioned."""
    found = await repeat_until_done(
        context.pool,
        lambda c: store.members(c, context.act.topic_name),
        what="finding partitions",
    )
    return [TopicName.parse(each) for each in found.values()]
