"""A topic's log in memory for tests of cursors and dispatchers."""

from __future__ import annotations

from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.ledgers.message_index import MessageIndex
from broker.core.position import Position

ENTRY_BYTES = 7  # of each message


class Log:
    """A log: its ledgers, its index, and the messages of each entry, in order."""

    def __init__(self, *, indexed: bool = True) -> None:
        self.ledgers = LedgerMap([LedgerInfo(ledger_id=1)])
        self.index = MessageIndex(self.ledgers)
        self.sizes: dict[Position, int] = {}
        self.cumulative: dict[Position, int] = {}
        self.indexed = indexed

    def publish(self, messages: int = 1) -> Position:
        """Store one entry."""
        ledger = self.ledgers.open_ledger()
        assert ledger is not None
        position = Position(ledger.ledger_id, ledger.entries)
        self.ledgers.append(ledger.ledger_id, 1, messages, messages * ENTRY_BYTES, append_ms=1)
        self.sizes[position] = messages
        self.cumulative[position] = self.ledgers.total_messages
        if self.indexed:
            self.load(position.ledger_id, position.entry_id, position.entry_id)
        return position

    def publish_all(self, *sizes: int) -> list[Position]:
        return [self.publish(messages) for messages in sizes]

    def roll(self, gap: int = 1) -> None:
        """Seal the open ledger and open one whose id is higher by `gap`."""
        last = self.ledgers.infos()[-1]
        self.ledgers.seal(last.ledger_id)
        self.ledgers.add(
            LedgerInfo(
                ledger_id=last.ledger_id + gap,
                entries_before=self.ledgers.total_entries,
                messages_before=self.ledgers.total_messages,
                bytes_before=self.ledgers.total_bytes,
            )
        )

    def load(self, ledger_id: int, first: int, last: int) -> None:
        """Put counts of entries into the index, as a read of the database does."""
        counts = [self.cumulative[Position(ledger_id, entry_id)] for entry_id in range(first, last + 1)]
        self.index.record(ledger_id, first, counts, [count * ENTRY_BYTES for count in counts])

    def positions(self) -> list[Position]:
        """Return the positions of all stored entries, ascending, without trimmed ones."""
        return [position for position in self.sizes if self.ledgers.contains(position)]
