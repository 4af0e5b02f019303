"""Merge the plans and the results of an act's partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.acts.kinds.drift import Drift

__all__ = ["merged_plan", "merged_result"]

_SUMMED: Final = (
    "replayed_messages",
    "skipped_messages",
    "in_flight_messages",
    "acked_meanwhile_messages",
    "published_meanwhile_messages",
    "backlog_messages",
    "consumers_closed",
    "consumers_kept",
    "partly_acked_forgotten",
)
_SUMMED_OF: Final = {
    "current": ("backlog_messages", "acked_messages"),
    "target": ("backlog_messages",),
    "standing": ("acked_messages", "published_messages", "count"),
}


def merged_plan(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the plan of the whole act."""
    planned = [part for part in parts if "left_out" not in part]
    shown = _totals(planned)
    for name, members in _SUMMED_OF.items():
        if all(part.get(name) is not None for part in planned):
            shown[name] = {member: sum(part[name][member] for part in planned) for member in members}
    if "allowed_drift_messages" in planned[0]:
        shown |= _drift(planned, shown["replayed_messages"])
    left_out = [f"partition {part['partition']}: {part['left_out']}" for part in parts if "left_out" in part]
    return {**shown, "notes": [*shown["notes"], *left_out], "partitions": list(parts)}


def merged_result(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of the whole act."""
    shown = _totals([part for part in parts if "error" not in part])
    return {**shown, "partitions": list(parts)}


def _drift(parts: Sequence[Mapping[str, Any]], replayed: int) -> dict[str, Any]:
    drifts = [part["drift"] for part in parts if part["drift"] is not None]
    if not drifts:
        return {"drift": None, "allowed_drift_messages": 0}
    drift = Drift(cause=drifts[0]["cause"], messages_per_s=sum(each["messages_per_s"] for each in drifts))
    replayed = replayed if drift.cause == "acked" else 0
    return {"drift": drift.to_json(replayed), "allowed_drift_messages": drift.allowed_messages(replayed)}


def _totals(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        name: sum(part[name] for part in parts) for name in _SUMMED if all(name in part for part in parts)
    }
    if any(part.get("words") for part in parts):
        shown["words"] = _joined(parts, "words")
    return {**shown, "notes": _joined(parts, "notes")}


def _joined(parts: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    first = parts[0].get(name, ()) if parts else ()
    shared = [each for each in first if all(each in part.get(name, ()) for part in parts)]
    return shared + [
        f"partition {part['partition']}: {each}"
        for part in parts
        for each in part.get(name, ())
        if each not in shared
    ]
