"""The history of topics and subscriptions, for charts.

A point stores the numbers of one period. A frame is the time that a chart covers. A chart divides its frame into equal
steps. An act is a logged change, such as the reset of a cursor.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from console.history.series import Level, Reading, Step, steps, summed_steps
from console.history.sparkline import BUCKET_MS, BacklogPoint, Sparkline, sparkline
from console.history.windows import Frame, Window, frame_of, spans, unread, window_of
from console.queries.database import fetch
from console.queries.numbers import CursorRow
from console.queries.subscription import subscription_heads

__all__ = [
    "PARTITIONS_CHARTED",
    "ActMark",
    "History",
    "acts_in",
    "ends_of",
    "history_of_everything",
    "history_of_partitions",
    "history_of_subscription",
    "history_of_topic",
    "readings_of",
    "rolled_up_until",
    "sparklines",
]

PARTITIONS_CHARTED: Final = 100
_ACTS = 50
_HOUR_MS = 3_600_000
_LATE_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActMark:
    """An act that was applied in the time that a chart covers."""

    id: int
    kind: str
    parameters: dict[str, Any]
    undo_of_id: int | None
    topic_name: str
    subscription_name: str
    who: str
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The data of a chart: its steps, oldest first, and the acts, newest first."""

    window: Window
    from_ms: int
    to_ms: int
    steps: tuple[Step, ...]
    acts: tuple[ActMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    resolution_s: int
    until_ms: int


def history_of_topic(
    topic_id: int, window_name: str, now: Level, *, created_at: datetime, is_partitioned: bool
) -> History:
    """Return the history of a topic."""
    window = window_of(window_name, is_sum=is_partitioned)
    return _history(topic_id, 0, window, now, created_at=created_at, is_sum=is_partitioned)


def history_of_subscription(
    topic_id: int, subscription_id: int, window_name: str, now: Level, *, created_at: datetime
) -> History:
    """Return the history of a subscription on one partition or on an unpartitioned topic."""
    window = window_of(window_name)
    return _history(topic_id, subscription_id, window, now, created_at=created_at, is_sum=False)


def history_of_partitions(topic_id: int, cursors: Sequence[CursorRow], window_name: str) -> History:
    """Return the history of a subscription of a partitioned topic, summed over the partitions.

    `cursors` must not be empty.
    """
    window = window_of(window_name, is_sum=True)
    frame = frame_of(window, time.time_ns() // 1_000_000)
    heads = subscription_heads([row.id for row in cursors])
    backlogs = {row.id: row.backlog_messages for row in cursors}
    rows = [(head.topic_id, each) for head in heads.values() for each in (0, head.id)]
    readings: dict[tuple[int, int], list[Reading]] = {row: [] for row in rows}
    until_ms = rolled_up_until()
    for reading in readings_of(frame, until_ms, rows):
        readings[reading.topic_id, reading.subscription_id].append(reading)
    series = [
        steps(
            frame,
            readings[head.topic_id, head.id],
            readings[head.topic_id, 0],
            now=Level(backlog_messages=backlogs[head.id]),
            known_from_ms=int(head.created_at.timestamp() * 1000),
            unread=unread(frame, until_ms),
        )
        for head in heads.values()
    ]
    return History(
        window=window,
        from_ms=frame.from_ms,
        to_ms=frame.to_ms,
        # `series` is empty if the subscription was just deleted.
        steps=summed_steps(series or [steps(frame, (), (), now=Level(), known_until_ms=0)]),
        acts=acts_in(topic_id, 0, from_ms=frame.from_ms, subscription=cursors[0].name),
    )


def history_of_everything(window_name: str) -> History:
    """Return the history of all topics together."""
    return _history(0, 0, window_of(window_name, is_sum=True), Level(), is_sum=True)


def sparklines(backlogs: Mapping[tuple[int, int], int | None]) -> dict[tuple[int, int], Sparkline]:
    """Return the backlog in the last hour for each topic or subscription in `backlogs`.

    `backlogs` has the current backlogs, keyed by topic id and subscription id. The subscription id 0 means the topic
    itself. Returns an empty dictionary if the latest points are more than 5 minutes old.
    """
    now_ms = time.time_ns() // 1_000_000
    to_ms = now_ms - now_ms % BUCKET_MS
    points = fetch(
        BacklogPoint,
        "history",
        "backlogs",
        {
            "topic_ids": [topic_id for topic_id, _ in backlogs],
            "subscription_ids": [subscription_id for _, subscription_id in backlogs],
            "from_ms": to_ms - _HOUR_MS,
            "to_ms": to_ms,
            "rolled_ms": to_ms - _LATE_MS,
        },
    )
    if any(point.topic_id == 0 for point in points):
        return {}
    by_row: dict[tuple[int, int], list[BacklogPoint]] = {row: [] for row in backlogs}
    for point in points:
        by_row[point.topic_id, point.subscription_id].append(point)
    return {
        row: sparkline(by_row[row], backlog, from_ms=to_ms - _HOUR_MS, to_ms=to_ms)
        for row, backlog in backlogs.items()
    }


def _history(
    topic_id: int,
    subscription_id: int,
    window: Window,
    now: Level,
    *,
    created_at: datetime | None = None,
    is_sum: bool,
) -> History:
    frame = frame_of(window, time.time_ns() // 1_000_000)
    until_ms = rolled_up_until()
    readings = readings_of(frame, until_ms, {(topic_id, 0), (topic_id, subscription_id)})
    own = [reading for reading in readings if reading.subscription_id == subscription_id]
    of_topic = [reading for reading in readings if reading.subscription_id == 0]
    return History(
        window=window,
        from_ms=frame.from_ms,
        to_ms=frame.to_ms,
        steps=steps(
            frame,
            own,
            of_topic,
            now=now,
            known_from_ms=0 if created_at is None else int(created_at.timestamp() * 1000),
            known_until_ms=until_ms.get(60, 0) if is_sum else None,
            unread=unread(frame, until_ms),
        ),
        acts=acts_in(topic_id, subscription_id, from_ms=frame.from_ms),
    )


def rolled_up_until() -> dict[int, int]:
    """Return the time in ms up to which the points of each resolution are complete."""
    return {row.resolution_s: row.until_ms for row in fetch(_Progress, "history", "progress", {})}


def readings_of(
    frame: Frame, until_ms: Mapping[int, int], rows: Collection[tuple[int, int]]
) -> list[Reading]:
    """Return the points in a frame.

    `rows` contains pairs of topic id and subscription id. The subscription id 0 means the topic itself.
    """
    return fetch(
        Reading,
        "history",
        "points",
        {
            "topic_ids": [topic_id for topic_id, _ in rows],
            "subscription_ids": [subscription_id for _, subscription_id in rows],
            **ends_of(frame, until_ms),
        },
    )


def ends_of(frame: Frame, until_ms: Mapping[int, int]) -> dict[str, int]:
    """Return the time range to read at each resolution, as query parameters."""
    ends: dict[str, int] = {}
    for resolution_s, (from_ms, to_ms) in spans(frame, until_ms).items():
        ends |= {f"from_{resolution_s}": from_ms, f"to_{resolution_s}": to_ms}
    return ends


def acts_in(
    topic_id: int,
    subscription_id: int,
    *,
    from_ms: int,
    until_ms: int | None = None,
    subscription: str | None = None,
) -> tuple[ActMark, ...]:
    """Return at most 50 applied acts in a time range, newest first.

    A `topic_id` of 0 means all topics. A `subscription_id` of 0 means all subscriptions. `subscription` is a name, or
    None for all names.
    """
    return tuple(
        fetch(
            ActMark,
            "history",
            "acts",
            {
                "topic_id": topic_id,
                "subscription_id": subscription_id,
                "subscription": subscription,
                "from_at": datetime.fromtimestamp(from_ms / 1000, UTC),
                "until_at": None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC),
                "limit": _ACTS,
            },
        )
    )
