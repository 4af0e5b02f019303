"""The stored points, acts and alerts of a topic or a subscription around a past moment.

A point stores the numbers of one period. A frame is the time that a chart covers. A chart divides its frame into equal
steps. An act is a logged change, such as the reset of a cursor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from broker.conf import broker_settings
from console.history.series import Level, Step, steps
from console.history.windows import RESOLUTIONS_S, Frame, frame_around, unread
from console.queries.database import fetch, fetch_one
from console.queries.history import ActMark, acts_in, readings_of, rolled_up_until

__all__ = ["Past", "PastAlert", "PauseAct", "past_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAlert:
    """An alert that was firing during the step that contains the requested moment."""

    rule_id: int | None  # None means the rule was deleted
    rule_name: str
    severity: str
    topic_name: str
    subscription_name: str
    fired_ms: int
    cleared_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseAct:
    """The act that last paused or resumed the subscription before the requested moment."""

    id: int
    kind: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The stored data about the requested moment."""

    frame: Frame
    steps: tuple[Step, ...]
    step: Step  # The step that contains the requested moment
    shorter_step_s: int | None  # The next shorter step length, or None if no shorter points are kept
    acts: tuple[ActMark, ...]  # Newest first
    alerts: tuple[PastAlert, ...]  # At most 50 alerts, oldest first
    paused_by: PauseAct | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    backlog: int | None
    stored_bytes: int | None


def past_of(
    at_ms: int,
    topic_id: int,
    subscription_id: int = 0,
    *,
    step_s: int = 0,
    created_at: datetime,
    is_sum: bool = False,
) -> Past | None:
    """Return the stored data about a moment, or None if the moment is in the future or its points are deleted.

    `step_s` is the requested length of a step, or 0 for the length of the shortest kept points. A step covers whole
    points, so it is longer than `step_s` if only longer points are kept. `is_sum` must be true for a partitioned topic.
    """
    now_ms = time.time_ns() // 1_000_000
    kept_ms = broker_settings().history_kept_ms
    kept_s = [each for each in RESOLUTIONS_S[1 if is_sum else 0 :] if now_ms - at_ms < kept_ms[each]]
    if at_ms > now_ms or not kept_s:
        return None
    step_s = step_s or kept_s[0]
    resolution_s = _resolution_s(at_ms, step_s, kept_s)
    frame = frame_around(at_ms, step_s, resolution_s, now_ms)
    until_ms = rolled_up_until()
    readings = readings_of(frame, until_ms, {(topic_id, 0), (topic_id, subscription_id)})
    subject = {"topic_id": topic_id, "subscription_id": subscription_id}
    not_read = unread(frame, until_ms)
    last = fetch_one(_Last, "past", "last_before", {**subject, "before_ms": frame.from_ms})
    found = steps(
        frame,
        [each for each in readings if each.subscription_id == subscription_id],
        [each for each in readings if each.subscription_id == 0],
        # If no point lies in the frame, the numbers of the last point before the frame still hold. If a part of the
        # frame was not read, points may lie there, so the numbers are unknown.
        now=Level()
        if last is None or not_read
        else Level(backlog_messages=last.backlog, stored_bytes=last.stored_bytes),
        known_from_ms=max(int(created_at.timestamp() * 1000), now_ms - kept_ms[resolution_s]),
        known_until_ms=min(frame.to_ms, until_ms.get(60, 0)) if is_sum else frame.to_ms,
        unread=not_read,
    )
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    step = next(each for each in found if each.at_ms <= at_ms < each.at_ms + frame.step_ms)
    of_step = {"from_ms": step.at_ms, "until_ms": step.at_ms + frame.step_ms}
    return Past(
        frame=frame,
        steps=found,
        step=step,
        shorter_step_s=max((each for each in kept_s if each < frame.window.step_s), default=None),
        acts=acts_in(topic_id, subscription_id, from_ms=frame.from_ms, until_ms=frame.until_ms),
        alerts=tuple(fetch(PastAlert, "past", "alerts", {**subject, **of_step})),
        paused_by=fetch_one(PauseAct, "past", "paused_by", {"subscription_id": subscription_id, "at": at})
        if subscription_id
        else None,
    )


def _resolution_s(at_ms: int, step_s: int, kept_s: Sequence[int]) -> int:
    """Return the length of the longest points that fill a step which begins at `at_ms`.

    If no points fill such a step exactly, return the length of the shortest kept points.
    """
    fitting = (each for each in kept_s if step_s % each == 0 and at_ms % (each * 1000) == 0)
    return max(fitting, default=kept_s[0])
