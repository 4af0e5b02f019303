"""Run due work when the periodic Celery task `tick` notifies the broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.deadlines import Deadlines, Timed
    from broker.topics.topic import Topic

__all__ = ["run_tick"]


def run_tick(payload: str, topics: Iterable[Topic], deadlines: Deadlines) -> None:
    """Run the work of the subscriptions and topics whose ids are in `payload`, and all other due work.

    Raises ValueError if `payload` is not a JSON object.
    """
    deadlines.run_due(_named_in(payload, topics))


def _named_in(payload: str, topics: Iterable[Topic]) -> list[Timed]:
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
