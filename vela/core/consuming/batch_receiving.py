"""Which messages fit into one batch receive."""

from __future__ import annotations

__all__ = ["BatchMeasure"]


class BatchMeasure:
    """Counts the messages and bytes of one batch receive. A limit of 0 or less is off."""

    __slots__ = ("_max_bytes", "_max_messages", "messages", "size_bytes")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self.messages = 0
        self.size_bytes = 0

    def add(self, size_bytes: int) -> bool:
        """Add a message of this size and return True, or return False if it does not fit. The first always fits."""
        if self.messages and (
            (0 < self._max_messages <= self.messages) or 0 < self._max_bytes < self.size_bytes + size_bytes
        ):
            return False
        self.messages += 1
        self.size_bytes += size_bytes
        return True
