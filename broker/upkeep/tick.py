"""The owner's part of Celery's tick: the objects in memory that the tick's notification names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.deadlines import Timed
    from broker.topics.topic import Topic

__all__ = ["named_in"]


def named_in(payload: str, topics: Iterable[Topic]) -> list[Timed]:
    """Return the subscriptions and delayed messages that a notification on `vela_tick` names by id.

    What is not in memory is left out: it has no consumers. Raises ValueError if the payload is not a JSON object.
    """
    named = json.loads(payload)
    if not isinstance(named, dict):
        raise ValueError(f"a notification on vela_tick must be a JSON object, not {payload!r}")
    overdue, delayed = set(named.get("subscriptions", ())), set(named.get("delayed", ()))
    if not overdue and not delayed:
        return []
    found: list[Timed] = []
    for topic in topics:
        if topic.topic_id in delayed:
            found.append(topic.delayed)
        if overdue:
            found += [
                each
                for each in topic.subscriptions.values()
                if each.is_durable and each.subscription_id in overdue
            ]
    return found
