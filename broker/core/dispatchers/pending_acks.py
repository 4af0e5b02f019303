"""The entries that are pending at one consumer: delivered but not acked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.core.ledgers.message_index import Range
from broker.core.position import Position

_MESSAGES_BITS: Final = 24  # An entry has fewer than 16 million messages
_MESSAGES_MASK: Final = (1 << _MESSAGES_BITS) - 1


class PendingAcks:
    """The pending entries of one consumer.

    Each entry is stored as an int, because the garbage collector skips ints. The int contains the delivery time and the
    number of unacked messages.
    """

    __slots__ = ("_ledgers", "entries", "messages")

    def __init__(self) -> None:
        self._ledgers: dict[int, dict[int, int]] = {}
        self.entries = 0
        self.messages = 0  # Unacked messages

    def __len__(self) -> int:
        return self.entries

    def __contains__(self, position: Position) -> bool:
        return position[1] in self._ledgers.get(position[0], ())

    def __iter__(self) -> Iterator[Position]:
        for ledger_id in sorted(self._ledgers):
            for entry_id in sorted(self._ledgers[ledger_id]):
                yield Position(ledger_id, entry_id)

    def get(self, position: Position) -> int:
        """Return how many messages of an entry are unacked, or 0 if the entry is not pending here."""
        ledger = self._ledgers.get(position[0])
        return ledger.get(position[1], 0) & _MESSAGES_MASK if ledger is not None else 0

    def delivered_ms(self, position: Position) -> int:
        """Return the delivery time of an entry in Unix milliseconds, or 0 if the entry is not pending here."""
        ledger = self._ledgers.get(position[0])
        return ledger.get(position[1], 0) >> _MESSAGES_BITS if ledger is not None else 0

    def add(self, position: Position, messages: int, delivered_ms: int = 0) -> None:
        """Record the delivery of an entry. Raises ValueError if the entry is pending here already."""
        ledger_id, entry_id = position
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            ledger = self._ledgers[ledger_id] = {}
        if entry_id in ledger:
            raise ValueError(f"entry {position} is pending already")
        ledger[entry_id] = delivered_ms << _MESSAGES_BITS | messages
        self.entries += 1
        self.messages += messages

    def credit(self, position: Position, messages: int, completed: bool) -> tuple[int, int] | None:
        """Subtract acked messages from an entry. Removes the entry if `completed` is true or no messages remain.

        Returns the number of messages subtracted and the delivery time, or None if the entry is not pending here.
        """
        ledger_id, entry_id = position
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            return None
        packed = ledger.get(entry_id)
        if packed is None:
            return None
        unacked = packed & _MESSAGES_MASK
        if not completed and messages < unacked:
            ledger[entry_id] = packed - messages
            self.messages -= messages
            return messages, packed >> _MESSAGES_BITS
        del ledger[entry_id]
        if not ledger:
            del self._ledgers[ledger_id]
        self.entries -= 1
        self.messages -= unacked
        return unacked, packed >> _MESSAGES_BITS

    def remove(self, position: Position) -> int | None:
        """Remove an entry and return the number of its unacked messages, or None if the entry is not pending here."""
        taken = self.credit(position, 0, completed=True)
        return None if taken is None else taken[0]

    def pop(self, positions: Iterable[Position]) -> list[Position]:
        """Remove the entries at these positions. Return the positions that were pending here, in ascending order."""
        return sorted(position for position in positions if self.remove(position) is not None)

    def pop_all(self) -> list[Position]:
        """Remove all entries, and return their positions in ascending order."""
        positions = list(self)
        self._ledgers.clear()
        self.entries = self.messages = 0
        return positions

    def pop_through(self, mark_delete: Position) -> int:
        """Remove the entries at or before `mark_delete` and return how many unacked messages they had.

        Takes linear time, so do not call this for every ack.
        """
        before = self.messages
        for ledger_id in [ledger_id for ledger_id in self._ledgers if ledger_id <= mark_delete.ledger_id]:
            entries = self._ledgers[ledger_id]
            whole = ledger_id < mark_delete.ledger_id
            for entry_id in [e for e in entries if whole or e <= mark_delete.entry_id]:
                self.remove(Position(ledger_id, entry_id))
        return before - self.messages

    def oldest(self) -> Position | None:
        """Return the lowest position, or None if nothing is pending."""
        if not self._ledgers:
            return None
        ledger_id = min(self._ledgers)
        return Position(ledger_id, min(self._ledgers[ledger_id]))

    def runs(self) -> Iterator[Range]:
        """Yield ascending ranges of consecutive entries as (ledger_id, first, last)."""
        for ledger_id in sorted(self._ledgers):
            first = last = -1
            for entry_id in sorted(self._ledgers[ledger_id]):
                if first >= 0 and entry_id == last + 1:
                    last = entry_id
                    continue
                if first >= 0:
                    yield ledger_id, first, last
                first = last = entry_id
            yield ledger_id, first, last

    def deliveries(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield ascending ranges of consecutive entries that have the same delivery time."""
        for ledger_id in sorted(self._ledgers):
            entries = self._ledgers[ledger_id]
            first = last = delivered_ms = -1
            for entry_id in sorted(entries):
                each_ms = entries[entry_id] >> _MESSAGES_BITS
                if entry_id == last + 1 and each_ms == delivered_ms:
                    last = entry_id
                    continue
                if first >= 0:
                    yield ledger_id, first, last, delivered_ms
                first, last, delivered_ms = entry_id, entry_id, each_ms
            yield ledger_id, first, last, delivered_ms
