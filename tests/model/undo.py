"""The messages that undoing an act must bring back."""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.position import Position
from tests.model.operator import Member

__all__ = ["OpenUndo"]


@dataclass(kw_only=True)
class OpenUndo:
    """The latest act, while it can be taken back."""

    act_id: int
    mark_delete: Position  # right after it
    restored: set[Member]  # what its undo brings back: what was acked before it, and since
    durable: set[Member]  # the part of it that a crash leaves
    passed: set[Member]  # acked right after it
    passed_wholly: set[Position]  # entries that were wholly acked right after it

    def ack(self, new: set[Member]) -> None:
        """Of a batch of which the act took a part, what it passed was not delivered, whatever is acked."""
        self.restored |= {
            m for m in new if m[0] <= self.mark_delete or m not in self.passed or m[0] in self.passed_wholly
        }

    def ack_through(self, position: Position, new: set[Member], *, is_beyond: bool) -> None:
        """Beyond mark-delete it says nothing of what the act passed: the client never received that."""
        if is_beyond:
            self.restored |= {m for m in new if m[0] > self.mark_delete} - self.passed
        elif position <= self.mark_delete:
            self.restored |= new
