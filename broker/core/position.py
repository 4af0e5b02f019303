"""The position of an entry in a topic's log."""

from __future__ import annotations

from typing import Final, NamedTuple


class Position(NamedTuple):
    """The address of one entry. Entry id -1 is the place before a ledger's first entry."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse text of the form `ledger:entry`. Raises ValueError for any other text."""
        ledger, separator, entry = text.partition(":")
        try:
            if not separator:
                raise ValueError
            return cls(int(ledger), int(entry))
        except ValueError:
            raise ValueError(f"position {text!r} is not of the form ledger:entry, as in 12:0") from None


_ENTRY_BITS: Final = 48  # Enough bits for any entry id
_ENTRY_MASK: Final = (1 << _ENTRY_BITS) - 1


def packed(position: Position) -> int:
    """Pack a position into an int, which takes less memory. The ints sort like the positions.

    The entry id must not be negative.
    """
    return position[0] << _ENTRY_BITS | position[1]


def unpacked(key: int) -> Position:
    """Return the position that a packed int stands for."""
    return Position(key >> _ENTRY_BITS, key & _ENTRY_MASK)


EARLIEST = Position(-1, -1)
LATEST = Position(2**63 - 1, 2**63 - 1)
