"""Report that a few old messages are unacked while many messages after them are acked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import FirstUnacked, Snapshot
from console.words.numerals import count
from console.words.said import said, said_many

__all__ = ["RULE"]

WINDOW_S: Final = 20.0
_LEAST_ACKED: Final = 50
_MOST_SHARE: Final = 0.1


def find(snapshot: Snapshot) -> Finding | None:
    cursor = snapshot.cursor
    first, left, behind = cursor.first, cursor.first_hole_entries, cursor.acked_behind_entries
    if first is None or not left or behind < _LEAST_ACKED or left > _MOST_SHARE * behind:
        return None
    if snapshot.seconds_since(max(first.appended_ms, first.delivered_ms)) < WINDOW_S:
        return None
    if snapshot.delayed is not None and not first.consumer_key:
        return None  # The oldest unacked message may be delayed
    evidence = [
        fact(said("first of them"), first.position),
        fact(said("stored"), first.appended_ms, Unit.TIME),
        fact(said("acked behind it"), behind, Unit.ENTRIES),
    ]
    cures = [
        Cure(text=said("Look at the oldest one"), block="next"),
        Cure(text=said("Skip only the oldest one"), act="skip_one", parameters={"id": first.position}),
    ]
    if first.consumer_name:
        evidence += [
            fact(said("in flight at"), first.consumer_name),
            fact(said("delivered"), first.delivered_ms, Unit.TIME),
        ]
        cures.insert(
            1,
            Cure(
                text=said("Redeliver the messages that {name} has", name=first.consumer_name),
                act="redeliver",
                parameters=_which(snapshot, first),
            ),
        )
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW,
        sentence=said_many(
            "{left} old entry is not acked, but {behind} after it are: mark-delete and retention cannot pass"
            " the hole.",
            "{left} old entries are not acked, but {behind} after them are: mark-delete and retention cannot"
            " pass the hole.",
            n=left,
            left=count(left),
            behind=count(behind),
        ),
        evidence=tuple(evidence),
        cures=tuple(cures),
    )


def _which(snapshot: Snapshot, first: FirstUnacked) -> Mapping[str, str | int]:
    holder = next((each for each in snapshot.consumers if each.key == first.consumer_key), None)
    return {"consumer_key": first.consumer_key} if holder is None else snapshot.which(holder)


RULE: Final = Rule(id="ack_hole", window_s=WINDOW_S, find=find)
