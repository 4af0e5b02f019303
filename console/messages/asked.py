"""Requests to the message browser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

from django.utils.translation import gettext as _

from console.messages.filters import Filters
from console.messages.values.columns import Column

__all__ = [
    "LIMIT",
    "MOST_ROWS",
    "STARTS",
    "Asked",
    "AskedInvalid",
    "Mark",
    "Spot",
    "Start",
    "read_mark",
    "read_spot",
]

# "next" finds unacked entries. "holes" finds only the unacked entries that lie before an acked entry.
Start = Literal["newest", "oldest", "time", "id", "next", "holes"]
STARTS: Final[tuple[Start, ...]] = get_args(Start)
LIMIT: Final = 50
MOST_ROWS: Final = 500

_MOST_ID: Final = (1 << 63) - 1
_MOST_INDEX: Final = (1 << 31) - 1
# The console writes the id of a message in a batch as ledger:entry:index. Clients print it as
# ledger:entry:partition:index. Both forms match; `read_spot` ignores the partition.
_SPOT: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,19})(?::(-1|[0-9]{1,10}))?(?::([0-9]{1,10}))?")
_MARK: Final = re.compile(r"(.{1,64})@([0-9]{1,18})")


class AskedInvalid(ValueError):
    """A request that cannot be answered. `field` names the value that must change."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


class Spot(NamedTuple):
    """The position of a message or of an entry."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1  # -1 for the whole entry

    def __str__(self) -> str:
        base = f"{self.ledger_id}:{self.entry_id}"
        return base if self.batch_index < 0 else f"{base}:{self.batch_index}"


class Mark(NamedTuple):
    """The last message or entry that was read for a page."""

    append_ms: int
    spot: Spot

    def __str__(self) -> str:
        return f"{self.spot}@{self.append_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for messages. Raises AskedInvalid if fields are missing or contradict each other."""

    start: Start = "newest"
    time_ms: int | None = None
    spot: Spot | None = None
    is_backward: bool = True  # Towards older messages
    partition: int | None = None  # None for all partitions, merged by append time
    subscription: str = ""
    filters: Filters = field(default_factory=Filters)
    columns: tuple[Column, ...] = ()
    limit: int = LIMIT
    after: Mark | None = None

    def __post_init__(self) -> None:
        if self.start == "time" and self.time_ms is None:
            raise AskedInvalid("at", _("Give the time to start at."))
        if self.start == "id" and self.spot is None:
            raise AskedInvalid("at", _("Give the position to start at, for example 12:4071."))
        if self.start in ("next", "holes") and not self.subscription:
            raise AskedInvalid("sub", _("Name the subscription."))
        if self.start == "newest" and not self.is_backward:
            raise AskedInvalid("order", _("Nothing is newer than the newest message: go towards older ones."))
        if self.start == "oldest" and self.is_backward:
            raise AskedInvalid("order", _("Nothing is older than the oldest message: go towards newer ones."))


def read_spot(text: str) -> Spot:
    """Read a position. Raises ValueError if the text is not a position."""
    found = _SPOT.fullmatch(text.strip())
    if found is None:
        raise ValueError(_("Write a position as ledger:entry, for example 12:4071, or in a batch 12:4071:3."))
    index = int(found[4] or (found[3] if found[4] is None else None) or -1)
    spot = Spot(int(found[1]), int(found[2]), index)
    if spot.ledger_id > _MOST_ID or spot.entry_id > _MOST_ID or spot.batch_index > _MOST_INDEX:
        raise ValueError(_("This position has a number that is too large: no topic has such a position."))
    return spot


def read_mark(text: str) -> Mark:
    """Read the text of a mark. Raises ValueError if the text is not a mark."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise ValueError(
            _(
                "Take “after” from the link on the previous page, or from next_after in the API, and do not change it."
            )
        )
    return Mark(int(found[2]), read_spot(found[1]))
