"""Where an entry is in a topic's log."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Address of one entry. Sorts by ledger, then entry. `entry_id` -1 is the place before a ledger's first entry."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read `ledger:entry`. Raises ValueError, with the text in its message, for anything else."""
        ledger, separator, entry = text.partition(":")
        try:
            if not separator:
                raise ValueError
            return cls(int(ledger), int(entry))
        except ValueError:
            raise ValueError(f"position {text!r} is not of the form ledger:entry, as in 12:0") from None


EARLIEST = Position(-1, -1)
LATEST = Position(2**63 - 1, 2**63 - 1)
