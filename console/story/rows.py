"""The recorded delivery events of one entry."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from broker.models import StoryEvent
from console.queries.database import fetch
from console.queries.topics.log import Place

__all__ = ["MOST_ROWS", "StoryRow", "in_order", "moment_of", "rows_of"]

MOST_ROWS: Final = 100
_ACKS: Final = frozenset((StoryEvent.ACKED, StoryEvent.PARTLY_ACKED))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryRow:
    """Events of one kind between `at_ms` and `until_ms`. A row may cover several neighbouring entries."""

    id: int
    subscription_id: int
    event: int
    at_ms: int
    until_ms: int
    events: int
    redelivery_count: int
    consumer_name: str
    consumer_address: str
    detail: str


def rows_of(subscriptions: Collection[int], place: Place) -> list[StoryRow]:
    """Return the newest rows of an entry for each subscription."""
    if not subscriptions:
        return []
    ledger_id, entry_id = place
    return fetch(
        StoryRow,
        "story",
        "rows",
        {
            "subscriptions": list(subscriptions),
            "ledger_id": ledger_id,
            "entry_id": entry_id,
            "limit": MOST_ROWS,
        },
    )


def in_order(rows: Iterable[StoryRow]) -> list[StoryRow]:
    """Sort the rows of one entry on one subscription by time."""
    return sorted(rows, key=moment_of)


def moment_of(row: StoryRow) -> tuple[int, bool, int]:
    """Return the sort key of a row. Within one millisecond, acks come last."""
    is_ack = row.event in _ACKS
    return (row.until_ms if is_ack else row.at_ms), is_ack, row.id
