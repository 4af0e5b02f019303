"""Find one message of a topic by its number, counted from the start or from the end."""

from __future__ import annotations

from console.messages.peek import PeekedMessage, peek
from console.queries.topics.log import EntryAt, LedgerRow, Log, Place, entries_at, log_of

__all__ = ["examine"]


def examine(topic_id: int, *, position: int, from_end: bool) -> PeekedMessage | None:
    """Return the message at `position`, counted from 1, or None if it is not stored."""
    log = log_of(topic_id)
    if not log.ledgers:
        return None
    first = log.ledgers[0].messages_before
    wanted = log.total_messages - position + 1 if from_end else first + position
    if not first < wanted <= log.total_messages:
        return None
    for ledger in log.ledgers:
        if ledger.messages_before < wanted <= ledger.messages_before + ledger.messages:
            return _in_ledger(log, ledger, wanted)
    return None


def _in_ledger(log: Log, ledger: LedgerRow, wanted: int) -> PeekedMessage | None:
    """Find the message by binary search. If its entry cannot be read, return the entry as one message."""
    low, high = 0, ledger.entries - 1
    found: EntryAt | None = None
    while low <= high:
        middle = (low + high) // 2
        place: Place = (ledger.ledger_id, middle)
        entry = entries_at(log, [place]).get(place)
        if entry is None:
            return None  # The entry was trimmed in the meantime
        if entry.cumulative_messages >= wanted:
            found, high = entry, middle - 1
        else:
            low = middle + 1
    if found is None:
        return None
    messages = peek(log, [found.place], unacked={}, limit=found.messages)
    index = wanted - (found.cumulative_messages - found.messages) - 1
    return messages[index] if index < len(messages) else next(iter(messages), None)
