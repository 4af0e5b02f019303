"""Plans of acts as the broker makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.acts.kinds.merged import merged_plan

__all__ = ["a_partitioned_plan", "a_plan"]


def a_plan(**changes: Any) -> dict[str, Any]:
    """Return a plan as the topic's owner makes it."""
    return {
        "current": {
            "mark_delete": "1:4",
            "next": "1:5",
            "next_append_ms": 2000,
            "backlog_messages": 12,
            "acked_messages": 5,
        },
        "target": {"mark_delete": "1:0", "next": "1:1", "next_append_ms": 1000, "backlog_messages": 16},
        "replayed_messages": 4,
        "skipped_messages": 0,
        "drift": {
            "cause": "acked",
            "messages_per_s": 2.0,
            "measured_over_s": 5,
            "applied_within_s": 30,
            "messages": 60,
            "words": "2 messages a second are being acked",
        },
        "allowed_drift_messages": 60,
        "in_flight_messages": 1,
        "consumers_closed": 1,
        "consumers_kept": 0,
        "partly_acked_forgotten": 0,
        "notes": ["the oldest message kept is 3 s younger than the requested time"],
        **changes,
    }


def a_partitioned_plan(
    replayed: Sequence[int], topic: str = "persistent://public/default/orders"
) -> dict[str, Any]:
    """Return the plan of a reset that replays this many messages of each partition."""
    return merged_plan(
        [
            a_plan(
                partition=partition,
                topic=f"{topic}-partition-{partition}",
                cursor_version=3,
                replayed_messages=messages,
                target={
                    "mark_delete": "1:0",
                    "next": "1:1",
                    "next_append_ms": 1000,
                    "backlog_messages": 12 + messages,
                },
            )
            for partition, messages in enumerate(replayed)
        ]
    )
