"""Count the unanswered messages of one topic or partition."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vela.wire.message_id import MessageId

__all__ = ["Unanswered"]

_MOST: Final = 10_000


class Unanswered:
    """Counts the unanswered pushes of each message.

    If more than `most` messages are unanswered, it forgets the message that was pushed first.
    """

    __slots__ = ("_copies", "_most")

    def __init__(self, most: int = _MOST) -> None:
        self._copies: dict[tuple[int, int, int], int] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._copies)

    def pushed(self, ledger_id: int, entry_id: int, batch_index: int) -> None:
        """Count a push of a message. `batch_index` is -1 if the entry is not a batch."""
        copies, key = self._copies, (ledger_id, entry_id, batch_index)
        copies[key] = copies.get(key, 0) + 1
        if len(copies) > self._most:
            del copies[next(iter(copies))]

    def answered(self, message_id: MessageId) -> None:
        """Remove one unanswered push of a message. Ignore an unknown message."""
        key = (message_id.ledger_id, message_id.entry_id, message_id.batch_index)
        left = self._copies.pop(key, 0) - 1
        if left > 0:
            self._copies[key] = left

    def answered_through(self, message_id: MessageId) -> int:
        """Remove this message and all earlier messages. Return how many unanswered pushes were removed.

        An id without a batch index stands for a whole entry.
        """
        index = message_id.batch_index
        last = (message_id.ledger_id, message_id.entry_id, index if index >= 0 else sys.maxsize)
        covered = [key for key in self._copies if key <= last]
        return sum(self._copies.pop(key) for key in covered)
