"""The messages that undoing an act must bring back."""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.position import Position
from tests.model.operator import Member

__all__ = ["OpenUndo"]


@dataclass(kw_only=True)
class OpenUndo:
    """The latest act, while it can be undone."""

    act_id: int
    mark_delete: Position  # right after the act
    restored: set[Member]  # acked after the undo: all acks from before the act, and later ones
    durable: set[Member]  # the part of `restored` that survives a crash
    passed: set[Member]  # acked right after the act
    passed_wholly: set[Position]  # entries that were wholly acked right after the act

    def ack(self, new: set[Member]) -> None:
        """Add acks. If the act passed a part of a batch, that part was not delivered, and its acks do not count."""
        self.restored |= {
            m for m in new if m[0] <= self.mark_delete or m not in self.passed or m[0] in self.passed_wholly
        }

    def ack_through(self, position: Position, new: set[Member], *, is_beyond: bool) -> None:
        """Add a cumulative ack. Beyond mark-delete, leave out messages that the act passed and that no client got."""
        if is_beyond:
            self.restored |= {m for m in new if m[0] > self.mark_delete} - self.passed
        elif position <= self.mark_delete:
            self.restored |= new
