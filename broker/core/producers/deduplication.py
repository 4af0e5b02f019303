"""Deduplication: recognise messages that are stored or being stored, by the highest sequence id of each producer name.

Pulsar checks only the last chunk of a large message. Vela also recognises earlier chunks that a client sends again
after a reconnection. If a client sends the first chunk of an incomplete message again, the message starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

__all__ = ["DuplicateFilter", "Mark", "Progress", "Verdict"]


class Verdict(Enum):
    """The answer of `admit`: whether a send is new."""

    NEW = "new"  # to be stored
    IN_FLIGHT = "in flight"  # the same message is being stored
    STORED = "stored"  # the same message is stored


class Mark(NamedTuple):
    """The sequence ids of the messages in one entry."""

    lowest: int  # of the first message
    highest: int  # of the last message; for a single message the same as `lowest`
    chunk_id: int | None = None  # only for a chunk that does not complete its message


@dataclass(slots=True)
class Progress:
    """The progress of one producer name."""

    highest: int = -1  # highest sequence id of a whole message, -1 = none
    chunk_sequence: int = -1  # sequence id of the latest large message, -1 = none
    chunk_id: int = -1  # the latest one of that message, not counting the chunk that completes it

    def covers(self, mark: Mark) -> bool:
        """Return whether the whole entry is at or below this progress.

        Pulsar compares only the first message of a batch: it confirms and discards the new messages in a batch that
        begins with an old one.
        """
        if mark.highest <= self.highest:
            return True
        return (
            mark.chunk_id is not None
            and mark.lowest == self.chunk_sequence
            and 0 < mark.chunk_id <= self.chunk_id
        )

    def take(self, mark: Mark) -> None:
        """Record this entry as the latest."""
        if mark.chunk_id is not None:
            self.chunk_sequence, self.chunk_id = mark.lowest, mark.chunk_id
        else:
            self.highest = max(self.highest, mark.highest)

    def copy(self) -> Progress:
        return Progress(self.highest, self.chunk_sequence, self.chunk_id)


class DuplicateFilter:
    """Deduplication of one topic. An entry that is stored or being stored is called pushed."""

    def __init__(self) -> None:
        self._pushed: dict[str, Progress] = {}
        self._stored: dict[str, Progress] = {}
        self._in_flight: dict[str, int] = {}  # entries pushed and not stored; no key = none

    def admit(self, name: str, mark: Mark) -> Verdict:
        """Return whether a send is new. If it is, record it as pushed."""
        pushed = self._pushed.get(name)
        if pushed is None:
            pushed = self._pushed[name] = Progress()
        if pushed.covers(mark):
            return Verdict.STORED if self.is_stored(name, mark) else Verdict.IN_FLIGHT
        pushed.take(mark)
        self._in_flight[name] = self._in_flight.get(name, 0) + 1
        return Verdict.NEW

    def stored(self, name: str, mark: Mark) -> None:
        """Record that an entry is durable, or was found in the log."""
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
        """Return whether the entry counts as stored."""
        stored = self._stored.get(name)
        return stored is not None and stored.covers(mark)

    def is_settled(self, name: str) -> bool:
        """Return whether everything pushed under the name is stored."""
        return name not in self._in_flight

    def last_stored(self, name: str) -> int:
        """Return the highest sequence id of a name's whole messages, -1 = none."""
        return self._stored.get(name, _NOTHING).highest

    def restore(self, name: str, progress: Progress) -> None:
        """Take over the progress that an earlier owner stored."""
        self._stored[name] = progress
        self._pushed[name] = progress.copy()

    def forget_pushed(self) -> None:
        """Forget the entries that were pushed but not stored, so that clients may send them again.

        Call it only when none of them is being stored any more.
        """
        self._in_flight.clear()
        self._pushed = {name: each.copy() for name, each in self._stored.items()}

    def forget(self, name: str) -> None:
        """Forget a producer that has not sent anything for a long time."""
        for table in (self._stored, self._pushed, self._in_flight):
            table.pop(name, None)

    def names(self) -> list[str]:
        """Return the names of all producers with stored entries."""
        return list(self._stored)

    def progress(self, name: str) -> Progress | None:
        """Return the progress of a name's stored entries, or None."""
        return self._stored.get(name)


_NOTHING = Progress()
