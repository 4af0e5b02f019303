"""The rows of delivery stories, and the buffer that all subscriptions share.

A delivery story records the deliveries and acks of one subscription.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = ["MOST_ENTRIES", "MOST_ROWS", "StoryBuffer", "StoryEvent", "StoryRow"]

# A row covers at most this many entries, unless its event is UNRECORDED.
MOST_ENTRIES: Final = 1024
MOST_ROWS: Final = 5_000  # PostgreSQL stores this many rows in about 50 ms


class StoryEvent(IntEnum):
    """The kinds of events. The database stores the values."""

    UNRECORDED = 0  # Events for which there was no room
    DELIVERED = 1
    ACKED = 2
    PARTLY_ACKED = 3
    ASKED_AGAIN = 4  # The client asked for redelivery
    NEGATIVELY_ACKED = 5  # Recorded when the redelivery is due
    TIMED_OUT = 6
    CONSUMER_LEFT = 7
    CONSUMER_SWITCHED = 8
    TAKEN_BACK = 9  # An operator asked for redelivery
    DEAD_LETTERED = 10
    RETRY_LETTERED = 11
    EXPIRED = 12
    # In the next three cases, the broker acked the entry because no consumer may get it.
    CORRUPT = 13
    MARKER = 14
    FILTERED = 15


@dataclass(slots=True, kw_only=True)
class StoryRow:
    """One kind of event for neighbouring entries of one subscription."""

    subscription_id: int
    event: StoryEvent
    ledger_id: int
    first_entry: int
    last_entry: int
    at_ms: int  # Time of the first event
    until_ms: int  # Time of the last event
    events: int
    redelivery_count: int
    consumer_name: str  # Empty for the broker and for UNRECORDED events
    consumer_address: str
    detail: str  # The retry-letter or dead-letter topic
    expires_ms: int


class StoryBuffer:
    """The rows that wait to be written to the database."""

    def __init__(self, *, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._rows: list[StoryRow] = []
        # Number of calls of `take`. A story must not change a row after this number has risen, because `take` has
        # returned the row.
        self.round = 0

    @property
    def has_room(self) -> bool:
        """Whether another row may be appended."""
        return len(self._rows) < self._most_rows

    def append(self, row: StoryRow) -> None:
        """Add a row."""
        self._rows.append(row)

    def take(self) -> list[StoryRow]:
        """Return all rows and begin a new round."""
        rows, self._rows = self._rows, []
        self.round += 1
        return rows
