"""Which sends repeat what is stored or on its way: the highest sequence of each producer name (protocol 3.5).

Chunks go further than upstream, which looks at the last one only: a part of a large message that is sent again after a
reconnection is recognised too, so that the parts stored are those of one message. A first part always begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

__all__ = ["DuplicateFilter", "Mark", "Progress", "Verdict"]


class Verdict(Enum):
    """What a send is."""

    NEW = "new"  # to be stored
    IN_FLIGHT = "in flight"  # the same one is being stored
    STORED = "stored"  # the same one is stored


class Mark(NamedTuple):
    """Which messages of its producer an entry holds."""

    lowest: int  # sequence id of the first message
    highest: int  # of the last one; the same for a single message
    chunk_id: int | None = None  # of a part that does not complete its message


@dataclass(slots=True)
class Progress:
    """How far one producer name is."""

    highest: int = -1  # sequence id of the last whole message
    chunk_sequence: int = -1  # of the large message under way, -1 = none
    chunk_id: int = -1  # of its last part

    def covers(self, mark: Mark) -> bool:
        """Whether all of the entry is at or below this.

        Upstream asks for the first message of a batch only, and so confirms and drops what is new in a batch that
        begins with something old. Who sends again in the same batches, as clients do, sees no difference.
        """
        if mark.highest <= self.highest:
            return True
        return (
            mark.chunk_id is not None
            and mark.lowest == self.chunk_sequence
            and 0 < mark.chunk_id <= self.chunk_id
        )

    def take(self, mark: Mark) -> None:
        """The entry is the latest now."""
        if mark.chunk_id is not None:
            self.chunk_sequence, self.chunk_id = mark.lowest, mark.chunk_id
        else:
            self.highest = max(self.highest, mark.highest)


class DuplicateFilter:
    """Of one topic. What is pushed is on its way to the log or in it; what is stored is in it."""

    def __init__(self) -> None:
        self._pushed: dict[str, Progress] = {}
        self._stored: dict[str, Progress] = {}

    def admit(self, name: str, mark: Mark) -> Verdict:
        """Judge a send; a new one counts as pushed from here on."""
        pushed = self._pushed.get(name)
        if pushed is None:
            pushed = self._pushed[name] = Progress()
        if pushed.covers(mark):
            return Verdict.STORED if self.is_stored(name, mark) else Verdict.IN_FLIGHT
        pushed.take(mark)
        return Verdict.NEW

    def stored(self, name: str, mark: Mark) -> None:
        """The entry is durable, or was found in the log."""
        stored = self._stored.get(name)
        if stored is None:
            stored = self._stored[name] = Progress()
        pushed = self._pushed.get(name)
        if pushed is None:
            pushed = self._pushed[name] = Progress()
        # Both by the same rule, so that they are equal once everything pushed is stored.
        for each in (stored, pushed):
            if not each.covers(mark):
                each.take(mark)

    def is_stored(self, name: str, mark: Mark) -> bool:
        """Whether the entry is in the log."""
        stored = self._stored.get(name)
        return stored is not None and stored.covers(mark)

    def is_settled(self, name: str) -> bool:
        """Whether everything pushed under the name is stored."""
        return self._pushed.get(name, _NOTHING) == self._stored.get(name, _NOTHING)

    def last_stored(self, name: str) -> int:
        """Sequence id of the last whole message of a name, -1 = none."""
        return self._stored.get(name, _NOTHING).highest

    def restore(self, name: str, progress: Progress) -> None:
        """As it was stored by an earlier owner."""
        self._stored[name] = progress
        self._pushed[name] = Progress(progress.highest, progress.chunk_sequence, progress.chunk_id)

    def forget_pushed(self) -> None:
        """Nothing is on its way any more: what was pushed and not stored may be sent again."""
        self._pushed = {
            name: Progress(each.highest, each.chunk_sequence, each.chunk_id)
            for name, each in self._stored.items()
        }

    def forget(self, name: str) -> None:
        """A producer that has not been seen for long."""
        self._stored.pop(name, None)
        self._pushed.pop(name, None)

    def names(self) -> list[str]:
        """Of all producers known."""
        return list(self._stored)

    def progress(self, name: str) -> Progress | None:
        """How far a name's stored entries go."""
        return self._stored.get(name)


_NOTHING = Progress()
