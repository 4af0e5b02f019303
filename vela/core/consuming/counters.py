"""A consumer's counters of received messages."""

from __future__ import annotations

from collections import Counter

from vela.core.consuming.statistics import ConsumerStatistics
from vela.wire.binary.enums import ValidationError

__all__ = ["ConsumerCounters"]


class ConsumerCounters:
    """Counts since the consumer was created. Read them at any time, and take differences for rates."""

    __slots__ = (
        "bytes_received",
        "discards",
        "messages_delivered",
        "messages_received",
        "receives_failed",
        "stale_entries",
        "undecryptable_entries",
    )

    def __init__(self) -> None:
        self.messages_received = 0  # taken by the application
        self.bytes_received = 0  # bytes of their payloads
        self.messages_delivered = 0  # messages from the broker; each message of a batch counts
        self.receives_failed = 0  # discarded entries and cancelled receives
        self.discards: Counter[ValidationError] = Counter()  # discarded entries, by reason
        self.stale_entries = 0  # entries from an earlier connection or epoch, or during closing
        self.undecryptable_entries = 0  # entries that this consumer could not decrypt

    def statistics(self, *, waiting: int, permits: int) -> ConsumerStatistics:
        """Return these counts, with the messages that wait in the queue and the room in it."""
        return ConsumerStatistics(
            messages_received=self.messages_received,
            bytes_received=self.bytes_received,
            messages_delivered=self.messages_delivered,
            messages_waiting=waiting,
            permits_available=permits,
            receives_failed=self.receives_failed,
            entries_discarded={reason.name: count for reason, count in self.discards.items()},
            entries_stale=self.stale_entries,
        )
