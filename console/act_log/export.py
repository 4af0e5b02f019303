"""Export acts as NDJSON or CSV.

An act is a logged change, such as a new user or a moved cursor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from broker.acts.requests import KINDS
from console.access.roles import role_for
from console.files import Form, line
from console.queries.acts import ActRow, ActsAsked, acts_page
from console.queries.rights import Scope
from console.words.acts import OF_USERS

__all__ = ["COLUMNS", "MOST_WRITTEN_BYTES", "export_acts"]

MOST_WRITTEN_BYTES: Final = 256 * 1024 * 1024  # Limited because the server keeps unsent bytes in memory
PAGE_ACTS: Final = 500
COLUMNS: Final = (
    "act",
    "created_at",
    "finished_at",
    "kind",
    "state",
    "planned_by",
    "who",
    "role",
    "origin",
    "topic",
    "subscription",
    "parameters",
    "reason",
    "planned_replayed_messages",
    "planned_skipped_messages",
    "replayed_messages",
    "skipped_messages",
    "plan",
    "result",
    "error",
    "undo_of",
    "undone_by",
)
_BY_THEMSELVES: Final = frozenset(("add_second_factor", "renew_recovery_codes"))
_ALSO_BY_THEMSELVES: Final = frozenset(("set_password", "remove_second_factor"))


def export_acts(asked: ActsAsked, scope: Scope, *, form: Form) -> Iterator[bytes]:
    """Yield a file of acts in pieces. The newest act comes first.

    After each page of acts, an empty piece tells the caller to send the pieces that it has gathered.
    """
    if form == "csv":
        yield line(dict(zip(COLUMNS, COLUMNS, strict=True)), form)
    before, acts, written_bytes, stopped_by = asked.before, 0, 0, ""
    while not stopped_by:
        rows, following = acts_page(asked, scope, before=before, limit=PAGE_ACTS)
        for row in rows:
            piece = line(_document(row), form)
            yield piece
            acts, before, written_bytes = acts + 1, row.id, written_bytes + len(piece)
            if written_bytes >= MOST_WRITTEN_BYTES:
                stopped_by = "size"
                break
        else:
            stopped_by = "" if following else "end"
        yield b""
    end = {"stopped_by": stopped_by, "acts": acts, "before": before if stopped_by == "size" else None}
    if form == "ndjson":
        yield line({"end": end}, form)
    else:
        yield line({"end": "# " + ", ".join(f"{name} {value}" for name, value in end.items())}, form)


def _document(row: ActRow) -> dict[str, Any]:
    plan, result = _numbers(row.plan), _numbers(row.result)
    values = (
        row.id,
        _utc(row.created_at),
        _utc(row.finished_at),
        row.kind,
        row.state,
        "" if row.plan is None else row.plan.get("planned_by", row.who),
        row.who,
        _role(row),
        row.origin,
        row.topic_name,
        row.subscription_name,
        row.parameters,
        row.reason,
        plan.get("replayed_messages"),
        plan.get("skipped_messages"),
        result.get("replayed_messages"),
        result.get("skipped_messages"),
        plan,
        result,
        row.error,
        row.undo_of_id,
        row.undone_by_id,
    )
    return dict(zip(COLUMNS, values, strict=True))


def _role(row: ActRow) -> str:
    kind = row.kind
    known = KINDS.get(kind)
    # Users need no role to change their own password or second factor.
    if kind in _BY_THEMSELVES or (kind in _ALSO_BY_THEMSELVES and row.parameters.get("user") == row.who):
        return ""
    if kind in OF_USERS or kind in ("create_token", "revoke_token"):
        return "admin"
    is_requested = kind.endswith("_alert_rule") or (known is not None and known.can_be_requested)
    return role_for(kind).word if is_requested or kind == "undo" else ""


def _numbers(document: Mapping[str, Any] | None) -> dict[str, int | float]:
    return {
        name: value
        for name, value in (document or {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _utc(then: datetime | None) -> str | None:
    return (
        None
        if then is None
        else then.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
