"""The partitions of an act, as rows of the tables on its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PartitionRow", "partition_rows"]

_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition: its plan, or its result beside the plan."""

    partition: int
    topic: str
    shown: Mapping[str, Any]
    planned: Mapping[str, Any] | None  # None before the act is applied
    why_not: str  # nothing is planned here, or nothing was done
    in_flight_messages: int | None
    backlog_before: int | None  # only before the act is applied
    backlog_after: int | None
    before: str | None  # mark-delete
    after: str | None


def partition_rows(plan: Mapping[str, Any], result: Mapping[str, Any] | None) -> list[PartitionRow]:
    """Return a row for each partition of a plan, or of a result together with its plan."""
    planned = {part["partition"]: part for part in plan.get("partitions", ())}
    if result is None:
        return [_planned(part) for part in planned.values()]
    done = {part["partition"]: part for part in result["partitions"]}
    return [
        _done(done[number], part) if number in done else _planned(part)
        for number, part in sorted({**done, **planned}.items())
    ]


def _planned(part: Mapping[str, Any]) -> PartitionRow:
    current, target = part.get("current") or _NONE, part.get("target") or _NONE
    return PartitionRow(
        partition=part["partition"],
        topic=part["topic"],
        shown=part,
        planned=None,
        why_not=part.get("left_out", ""),
        in_flight_messages=part.get("in_flight_messages"),
        backlog_before=current.get("backlog_messages"),
        backlog_after=target.get("backlog_messages"),
        before=current.get("mark_delete"),
        after=target.get("mark_delete"),
    )


def _done(part: Mapping[str, Any], planned: Mapping[str, Any]) -> PartitionRow:
    return PartitionRow(
        partition=part["partition"],
        topic=part["topic"],
        shown=part,
        planned=planned,
        why_not=part.get("error", ""),
        in_flight_messages=planned.get("in_flight_messages"),
        backlog_before=None,
        backlog_after=part.get("backlog_messages"),
        before=part.get("before"),
        after=part.get("after"),
    )
