"""Tables of an act's partitions: what is planned for each, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vela.cli.text.numerals import UNKNOWN, count

__all__ = ["done_partitions", "planned_partitions"]

_HEADING = ("partition", "delivered again", "skipped")


def planned_partitions(plan: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a heading and a row for each partition of a plan. Empty for an act on one topic."""
    parts = [part for part in plan.get("partitions", ()) if "left_out" not in part]
    if not parts:
        return []
    if "current" not in plan:
        return [(*_HEADING, "consumers closed"), *((*_counts(each), _closed(each)) for each in parts)]
    return [
        (*_HEADING, "in flight", "backlog", "backlog after", "mark-delete", "mark-delete after"),
        *(
            (
                *_counts(each),
                count(each["in_flight_messages"]),
                count(each["current"]["backlog_messages"]),
                count(each["target"]["backlog_messages"]),
                each["current"]["mark_delete"],
                each["target"]["mark_delete"],
            )
            for each in parts
        ),
    ]


def done_partitions(act: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a heading and a row for each partition of a receipt, with the planned value where it differs."""
    result = act["result"] or {}
    parts = result.get("partitions", ())
    if not parts:
        return []
    planned = {each["partition"]: each for each in (act["plan"] or {}).get("partitions", ())}
    rows = []
    for each in parts:
        if "error" in each:
            rows.append((str(each["partition"]), UNKNOWN, UNKNOWN, UNKNOWN, each["error"]))
            continue
        then = planned.get(each["partition"], each)
        rows.append(
            (
                str(each["partition"]),
                _done(each, then, "replayed_messages"),
                _done(each, then, "skipped_messages"),
                count(each.get("backlog_messages")),
                "done",
            )
        )
    return [(*_HEADING, "backlog", ""), *rows]


def _counts(part: Mapping[str, Any]) -> tuple[str, ...]:
    return str(part["partition"]), count(part["replayed_messages"]), count(part["skipped_messages"])


def _closed(part: Mapping[str, Any]) -> str:
    return count(part["consumers_closed"])


def _done(part: Mapping[str, Any], planned: Mapping[str, Any], name: str) -> str:
    done, then = part[name], planned.get(name, part[name])
    return count(done) if done == then else f"{count(done)} (planned {count(then)})"
