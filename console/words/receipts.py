"""The effects of an act, as rows of tables. An act is a logged change, such as a cursor reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.words.acts import acked_meanwhile
from console.words.numerals import count

__all__ = ["PartitionRow", "PartitionTable", "ReceiptRow", "next_message", "partition_table", "receipt_rows"]

_NONE: Mapping[str, Any] = {}
_LABELS: Final = {
    "replayed_messages": gettext_noop("Delivered again"),
    "skipped_messages": gettext_noop("Skipped"),
    "redriven_messages": gettext_noop("Published again"),
    "consumers_closed": gettext_noop("Consumers closed"),
}
_OF_A_MOVE: Final = ("replayed_messages", "skipped_messages", "consumers_closed")
_OF_A_SKIP: Final = ("skipped_messages",)
_OF_AN_END: Final = ("skipped_messages", "consumers_closed")
_CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "reset": _OF_A_MOVE,
    "seek": _OF_A_MOVE,
    "undo": _OF_A_MOVE,
    "skip": _OF_A_SKIP,
    "skip_one": _OF_A_SKIP,
    "skip_entries": _OF_A_SKIP,
    "clear": _OF_A_SKIP,
    "expire": _OF_A_SKIP,
    "evict": _OF_A_SKIP,
    "truncate": _OF_A_SKIP,
    "send_to_dead_letters": _OF_A_SKIP,
    "expire_subscription": _OF_A_SKIP,
    "delete_subscription": _OF_AN_END,
    "delete_topic": _OF_AN_END,
    "redrive": ("redriven_messages",),
    "disconnect": ("consumers_closed",),
    "unload": ("consumers_closed",),
}
"""The counts that the tables show for each kind of act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """One count, with the planned and the actual number."""

    label: str
    planned: int | None  # None if the plan lacks this count
    done: int
    under_label: str = ""
    under_planned: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition, with its plan or its result."""

    partition: int
    topic: str
    shown: Mapping[str, Any]
    planned: Mapping[str, Any] | None  # None if `shown` is the plan
    why_not: str
    in_flight_messages: int | None
    backlog_before: int | None  # None if `shown` is a result
    backlog_after: int | None
    before: str | None  # Mark-delete position before the act
    after: str | None


def next_message(place: Mapping[str, Any]) -> str:
    """Return the id of the first unacked message at a place, or "" if no message is left.

    `place` is a plan's `current` or `target`.
    """
    inside = place.get("inside")
    left = int(inside["remaining"], 16) if inside else 0  # Bit 0 is the first message of the batch
    if inside is None or not left or not place["next"]:
        return place["next"] or ""
    return f"{inside['position']}:{(left & -left).bit_length() - 1}"


def receipt_rows(kind: str, plan: Mapping[str, Any], result: Mapping[str, Any]) -> list[ReceiptRow]:
    """Return the rows of an act's counts."""
    rows = [
        ReceiptRow(
            label=_(_LABELS[name]),
            planned=plan.get(name),
            done=int(result.get(name) or 0),
            under_planned=_allowance(name, plan),
        )
        for name in _CHANGES.get(kind, ())
        if name in result
    ]
    if meanwhile := result.get("acked_meanwhile_messages"):
        rows.append(
            ReceiptRow(
                label=_("Acked between preview and act"),
                planned=None,
                done=meanwhile,
                under_label=acked_meanwhile(plan, result),
            )
        )
    if meanwhile := result.get("published_meanwhile_messages"):
        rows.append(ReceiptRow(label=_("Published between preview and act"), planned=None, done=meanwhile))
    return rows


def _allowance(name: str, plan: Mapping[str, Any]) -> str:
    allowed, cause = plan.get("allowed_drift_messages"), (plan.get("drift") or _NONE).get("cause")
    if not allowed or cause != {"replayed_messages": "acked", "skipped_messages": "published"}.get(name):
        return ""
    return _("up to {number} more").format(number=count(allowed))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTable:
    """The table of an act's partitions."""

    rows: list[PartitionRow]
    changes: tuple[str, ...]
    moves_cursors: bool

    @property
    def columns(self) -> int:
        """The number of columns after the partition column."""
        return max(1, len(self.changes) + (3 if self.moves_cursors else 0))

    @property
    def adds_detail(self) -> bool:
        """Whether the table says more than the sentences on the page."""
        return bool(self.changes) or any(row.why_not for row in self.rows)


def partition_table(kind: str, plan: Mapping[str, Any], result: Mapping[str, Any] | None) -> PartitionTable:
    """Return the table for a plan, or for a plan and its result."""
    moves_cursors = "current" in plan
    return PartitionTable(
        rows=_rows(plan, result),
        # A cursor move closes the consumers of all partitions or of none, so omit `consumers_closed`.
        changes=tuple(
            name for name in _CHANGES.get(kind, ()) if not moves_cursors or name != "consumers_closed"
        ),
        moves_cursors=moves_cursors,
    )


def _rows(plan: Mapping[str, Any], result: Mapping[str, Any] | None) -> list[PartitionRow]:
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
