"""Set policies in tests. They are stored as an act stores them, and take effect at once."""

from __future__ import annotations

from broker.core.topic_name import TopicName
from broker.topics.policies import Holder
from tests.support.broker_harness import BrokerRun

__all__ = ["set_policies"]


async def set_policies(run: BrokerRun, topic: str = "t", /, **values: object) -> None:
    """Set these policies on an existing topic, in addition to those that are set already."""
    holder = Holder.of_topic(TopicName.parse(topic))
    state = await run.broker.policies.documents.read(holder)
    await run.broker.policies.change(holder, before=state.document, after={**state.document, **values})
