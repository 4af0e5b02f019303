"""The rows of delivery stories. Each row has one event of neighbouring entries on one subscription, and its time.

The recorder of each subscription (story.py) appends to one shared buffer, and a writer takes all rows once a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = ["MOST_ENTRIES", "MOST_ROWS", "StoryBuffer", "StoryEvent", "StoryRow"]

# Rows, except UNRECORDED ones, have at most this many entries, so that a query for one entry reads only rows that begin
# close before it.
MOST_ENTRIES: Final = 1024
MOST_ROWS: Final = 5_000  # rows that wait to be written, of all subscriptions; PostgreSQL takes about 50 ms


class StoryEvent(IntEnum):
    """The kinds of events. The table stores the values."""

    UNRECORDED = 0  # events for which there was no room; `events` is their number
    DELIVERED = 1
    ACKED = 2
    PARTLY_ACKED = 3  # some messages of a batch
    # The client asked for redelivery, such as after a negative ack or an ack timeout that it measures itself.
    ASKED_AGAIN = 4
    NEGATIVELY_ACKED = 5  # the delay after a negative ack is over; the broker measures it
    TIMED_OUT = 6  # the ack timeout is over; the broker measures it
    CONSUMER_LEFT = 7
    CONSUMER_SWITCHED = 8  # on Failover, another consumer became active
    TAKEN_BACK = 9  # an operator asked for redelivery
    DEAD_LETTERED = 10  # the broker wrote a copy to the dead-letter topic in `detail`
    RETRY_LETTERED = 11
    EXPIRED = 12  # the time to live is over
    CORRUPT = 13  # this and the next two: the broker acked the entry, because no consumer may get it
    MARKER = 14
    FILTERED = 15


@dataclass(slots=True, kw_only=True)
class StoryRow:
    """One event of the entries `first_entry` to `last_entry`. It may grow until the writer takes it."""

    subscription_id: int
    event: StoryEvent
    ledger_id: int
    first_entry: int
    last_entry: int
    at_ms: int  # time of the first event
    until_ms: int  # time of the last event
    events: int
    redelivery_count: int
    consumer_name: str  # "" = the broker itself, or the event is UNRECORDED
    consumer_address: str
    detail: str
    expires_ms: int


class StoryBuffer:
    """The rows that wait to be written. A recorder that finds no room counts the events that it leaves out."""

    def __init__(self, *, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._rows: list[StoryRow] = []
        self.round = 0  # rises when the rows are taken, because taken rows must not grow

    @property
    def has_room(self) -> bool:
        """Whether a recorder may append another row."""
        return len(self._rows) < self._most_rows

    def append(self, row: StoryRow) -> None:
        """Add a row."""
        self._rows.append(row)

    def take(self) -> list[StoryRow]:
        """Return all rows and begin a new round."""
        rows, self._rows = self._rows, []
        self.round += 1
        return rows
