"""Find and change the topics that an act works on. An act is a change that the broker makes on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from broker.acts.kinds.base import PartlyDone
from broker.core.counted import counted
from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import life as store

if TYPE_CHECKING:
    from broker.acts.kinds.base import ActContext
    from broker.topics.topic import Topic

__all__ = ["change_each", "members"]


async def members(context: ActContext) -> list[TopicName]:
    """Return the partitions of the act's topic, or the topic itself if it is not partitioned."""
    found = await repeat_until_done(
        context.pool,
        lambda c: store.members(c, context.act.topic_name),
        what="finding partitions",
    )
    return [TopicName.parse(each) for each in found.values()]


async def change_each(
    context: ActContext, names: Iterable[TopicName], change: Callable[[Topic], Awaitable[object]]
) -> None:
    """Change the topics one after another.

    Raises BrokerError if the first change fails, and PartlyDone if a later change fails.
    """
    for done, name in enumerate(names):
        try:
            await change(await context.topics.open(name, create=False))
        except BrokerError as error:
            if not done:
                raise
            changed = counted(done, "partition was", "partitions were")
            raise PartlyDone(
                f"{name}: {error}; {changed} changed before it: plan the act again", result={}
            ) from error
