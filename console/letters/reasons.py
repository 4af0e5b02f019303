"""Find out where dead letters came from, and why consumers failed to process them.

Pulsar's clients store the origin of a letter, but no reason. Some applications add the exception as a property.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from vela.wire.letters import ORIGIN_MESSAGE_ID, REAL_SUBSCRIPTION, REAL_TOPIC

__all__ = ["MOST_GROUPS", "Group", "Groups", "Letter", "letter_of"]

MOST_GROUPS: Final = 50
_MOST_TEXT: Final = 300
_UNFIT: Final = re.compile("[\0\r\n]")
# Names of properties that may hold the reason, best first, in lower case and without "-" and "_".
_REASONS: Final = (
    "exception",
    "exceptionmessage",
    "xexceptionmessage",
    "exceptionfqcn",
    "xexceptionfqcn",
    "exceptionclass",
    "error",
    "errormessage",
    "reason",
    "failurereason",
    "cause",
)


# Clients based on Apache's C++ library write an id as (ledger,entry,partition,batch index).
_CPP_ID: Final = re.compile(r"\(([0-9]{1,19}),([0-9]{1,19}),(-1|[0-9]{1,10}),(-1|[0-9]{1,10})\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """The reason and the origin in a letter's properties. A producer can write anything into properties."""

    reason_name: str
    reason: str
    topic: str
    subscription: str
    origin_id: str


def letter_of(properties: Mapping[str, str], *, by: str = "") -> Letter:
    """Read a letter's properties.

    `by` names the property that holds the reason. If `by` is empty, the usual names apply.
    """
    name = by if by in properties else "" if by else _reason_name(properties)
    return Letter(
        reason_name=name,
        reason=properties.get(name, ""),
        topic=properties.get(REAL_TOPIC, ""),
        subscription=properties.get(REAL_SUBSCRIPTION, ""),
        origin_id=_origin_id(properties.get(ORIGIN_MESSAGE_ID, "")),
    )


def _origin_id(text: str) -> str:
    cpp = _CPP_ID.fullmatch(text)
    if cpp is None:
        return text
    ledger, entry, partition, index = cpp.groups()
    return f"{ledger}:{entry}" if index == "-1" else f"{ledger}:{entry}:{partition}:{index}"


def _reason_name(properties: Iterable[str]) -> str:
    known = {name.lower().replace("-", "").replace("_", ""): name for name in properties if len(name) < 64}
    return next((known[each] for each in _REASONS if each in known), "")


@dataclass(slots=True, kw_only=True)
class Group:
    """Letters with the same reason, original topic and subscription."""

    reason_name: str
    reason: str  # Never shortened, because `redrive_filter` selects letters with exactly this text
    topic: str
    subscription: str
    letters: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0

    @property
    def shown_reason(self) -> str:
        """The reason, cut to the length that a page shows."""
        return self.reason if len(self.reason) <= _MOST_TEXT else f"{self.reason[:_MOST_TEXT]}…"

    @property
    def redrive_filter(self) -> dict[str, str]:
        """Fields of the redrive form that select letters by reason.

        If no reason is known, the fields select letters by subscription.
        """
        name, value = (
            (self.reason_name, self.reason) if self.reason_name else (REAL_SUBSCRIPTION, self.subscription)
        )
        usable = (
            name
            and value
            and len(name) <= _MOST_TEXT
            and len(value) <= _MOST_TEXT
            and not _UNFIT.search(name + value)
        )
        return {"property_name": name, "property_value": value} if usable else {}


@dataclass(slots=True, kw_only=True)
class Groups:
    """The groups found so far. `others` counts the letters of the groups that are left out."""

    found: dict[Letter, Group] = field(default_factory=dict)
    others: int = 0

    def add(self, letter: Letter, append_ms: int) -> None:
        """Count one letter."""
        key = Letter(
            reason_name=letter.reason_name,
            reason=letter.reason,
            topic=letter.topic,
            subscription=letter.subscription,
            origin_id="",
        )
        group = self.found.get(key)
        if group is None:
            if len(self.found) >= MOST_GROUPS:
                self.others += 1
                return
            group = self.found[key] = Group(
                reason_name=letter.reason_name,
                reason=letter.reason,
                topic=letter.topic,
                subscription=letter.subscription,
            )
        group.letters += 1
        group.oldest_ms = min(group.oldest_ms or append_ms, append_ms)
        group.newest_ms = max(group.newest_ms, append_ms)

    def largest_first(self) -> list[Group]:
        """Return the groups, largest first."""
        return sorted(self.found.values(), key=lambda group: (-group.letters, group.reason, group.topic))
