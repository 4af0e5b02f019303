"""Recognise duplicate messages by the highest sequence id of each producer name.

Pulsar checks only the final chunk of a large message. Vela also recognises earlier chunks that a client sends again.
If a client repeats the first chunk of an incomplete message, the message starts over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

__all__ = ["DuplicateFilter", "Mark", "Progress", "Verdict"]


class Verdict(Enum):
    """The result of `DuplicateFilter.admit`."""

    NEW = "new"
    IN_FLIGHT = "in flight"  # The same message is being stored
    STORED = "stored"


class Mark(NamedTuple):
    """The sequence ids of the messages in one entry."""

    lowest: int
    highest: int
    chunk_id: int | None = None  # None for a final chunk or a message without chunks


@dataclass(slots=True)
class Progress:
    """The latest sequence ids of one producer name. -1 means none."""

    highest: int = -1  # Highest sequence id of a complete message
    chunk_sequence: int = -1  # Sequence id of the latest chunked message
    chunk_id: int = -1  # Id of the chunked message's latest chunk

    def covers(self, mark: Mark) -> bool:
        """Return whether all messages of an entry are duplicates.

        Pulsar compares only the first message of a batch, and may therefore discard new messages.
        """
        if mark.highest <= self.highest:
            return True
        return (
            mark.chunk_id is not None
            and mark.lowest == self.chunk_sequence
            and 0 < mark.chunk_id <= self.chunk_id
        )

    def take(self, mark: Mark) -> None:
        """Record an entry."""
        if mark.chunk_id is not None:
            self.chunk_sequence, self.chunk_id = mark.lowest, mark.chunk_id
        else:
            self.highest = max(self.highest, mark.highest)

    def copy(self) -> Progress:
        return Progress(self.highest, self.chunk_sequence, self.chunk_id)


class DuplicateFilter:
    """Deduplication of one topic. A "pushed" entry was accepted for storing."""

    def __init__(self) -> None:
        self._pushed: dict[str, Progress] = {}
        self._stored: dict[str, Progress] = {}
        self._in_flight: dict[str, int] = {}  # Number of entries being stored, by producer name

    def admit(self, name: str, mark: Mark) -> Verdict:
        """Return whether an entry is new, and record a new entry as pushed."""
        pushed = self._pushed.get(name)
        if pushed is None:
            pushed = self._pushed[name] = Progress()
        if pushed.covers(mark):
            return Verdict.STORED if self.is_stored(name, mark) else Verdict.IN_FLIGHT
        pushed.take(mark)
        self._in_flight[name] = self._in_flight.get(name, 0) + 1
        return Verdict.NEW

    def stored(self, name: str, mark: Mark) -> None:
        """Record that an entry was stored."""
        stored = self._stored.get(name)
        if stored is None:
            stored = self._stored[name] = Progress()
        if not stored.covers(mark):
            stored.take(mark)
        left = self._in_flight.get(name, 0) - 1
        if left > 0:
            self._in_flight[name] = left
        else:
            self._in_flight.pop(name, None)
            self._pushed[name] = stored.copy()

    def is_stored(self, name: str, mark: Mark) -> bool:
        """Return whether the stored sequence ids cover all messages of the entry."""
        stored = self._stored.get(name)
        return stored is not None and stored.covers(mark)

    def is_settled(self, name: str) -> bool:
        """Return whether all pushed entries of a producer name are stored."""
        return name not in self._in_flight

    def last_stored(self, name: str) -> int:
        """Return the highest sequence id of the complete messages stored under a producer name, or -1."""
        return self._stored.get(name, _NOTHING).highest

    def restore(self, name: str, progress: Progress) -> None:
        """Set a producer name's stored progress."""
        self._stored[name] = progress
        self._pushed[name] = progress.copy()

    def forget_pushed(self) -> None:
        """Forget the pushed entries that were never stored, because clients may send them again.

        Call this method only when no entry is being stored.
        """
        self._in_flight.clear()
        self._pushed = {name: each.copy() for name, each in self._stored.items()}

    def forget(self, name: str) -> None:
        """Forget a producer name."""
        for table in (self._stored, self._pushed, self._in_flight):
            table.pop(name, None)

    def names(self) -> list[str]:
        """Return the producer names with stored entries."""
        return list(self._stored)

    def progress(self, name: str) -> Progress | None:
        """Return a producer name's stored progress, or None."""
        return self._stored.get(name)


_NOTHING = Progress()
