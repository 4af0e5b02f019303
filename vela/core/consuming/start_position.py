"""Where a consumer begins: skip the messages before its start.

The broker sends the whole entry that a start message id names, so the client must skip the messages before the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from vela.message import MessageId

__all__ = ["StartPosition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """The start message id of a seek, or of a subscription that is not durable."""

    ledger_id: int
    entry_id: int
    batch_index: int  # -1 = the entry as a whole
    inclusive: bool  # whether to deliver the message itself

    @classmethod
    def at(cls, message_id: MessageId, *, inclusive: bool) -> Self | None:
        """Return the start at a message. None for `earliest` and `latest`, because they leave nothing to skip."""
        if message_id in (MessageId.earliest, MessageId.latest):
            return None
        first = message_id.first_chunk() or message_id
        return cls(
            ledger_id=first.ledger_id(),
            entry_id=first.entry_id(),
            batch_index=first.batch_index(),
            inclusive=inclusive,
        )

    def follows(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the start is in a later entry than this one."""
        return (ledger_id, entry_id) < (self.ledger_id, self.entry_id)

    def skips(self, ledger_id: int, entry_id: int, batch_index: int) -> bool:
        """Return whether to skip a message of the entry at the start. The broker itself skips earlier entries.

        Skip what comes before the start, and the start unless it is inclusive.
        """
        if ledger_id != self.ledger_id or entry_id != self.entry_id:
            return False
        if self.batch_index < 0 or batch_index < 0:
            return not self.inclusive
        return batch_index < self.batch_index or (batch_index == self.batch_index and not self.inclusive)
