"""A consumer's counters of received messages."""

from __future__ import annotations

from collections import Counter

from vela.wire.binary.enums import ValidationError

__all__ = ["ConsumerCounters"]


class ConsumerCounters:
    """Counts since the consumer was made. Read them at any time, and take differences for rates."""

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
        self.bytes_received = 0  # of their payloads
        self.messages_delivered = 0  # come from the broker, those of a batch one by one
        self.receives_failed = 0  # entries thrown away, and receives that were interrupted
        self.discards: Counter[ValidationError] = Counter()  # entries thrown away, by reason
        self.stale_entries = 0  # come over a connection, or in an epoch, that is past
        self.undecryptable_entries = 0  # for which this consumer has no key
