"""The `since` parameter, which says how far a page has read a topic.

A page looks at a topic again and again. Each look is one search backwards from the end of the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from console.messages.lanes import MOST_LANES
from console.queries.topics.log import Place

__all__ = ["MOST_CHARACTERS", "Since", "read_since"]

MOST_CHARACTERS: Final = 2000
_MOST_ID: Final = (1 << 63) - 1
_PLACE: Final = "[0-9]{1,19}:[0-9]{1,19}"
_SINCE: Final = re.compile(rf"([0-9]{{1,15}})-([0-9]{{1,15}})@({_PLACE}(?:,{_PLACE})*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The end of the log at the last look, and two totals over all looks."""

    matched: int  # Number of new messages that match
    skipped: int  # Number of new entries that no look has read
    places: tuple[Place, ...]  # Last entry of the topic, or of each partition

    def __str__(self) -> str:
        places = ",".join(f"{ledger_id}:{entry_id}" for ledger_id, entry_id in self.places)
        return f"{self.matched}-{self.skipped}@{places}"


def read_since(text: str) -> Since:
    """Parse the parameter. Raises ValueError if the text is not valid."""
    found = _SINCE.fullmatch(text) if len(text) <= MOST_CHARACTERS else None
    if found is not None:
        pairs = [pair.split(":") for pair in found[3].split(",")]
        places = tuple((int(ledger_id), int(entry_id)) for ledger_id, entry_id in pairs)
        if len(places) <= MOST_LANES and max(map(max, places)) <= _MOST_ID:
            return Since(matched=int(found[1]), skipped=int(found[2]), places=places)
    raise ValueError(_("Take “since” from the address of the previous page, and do not change it."))
