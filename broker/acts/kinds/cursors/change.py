"""A change of one cursor, and the number of affected messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from broker.core.cursor.cursor import Cursor
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from broker.log.reader import TopicReader
    from broker.subscription.subscription import Subscription

__all__ = ["Change", "PlannedMove", "Target", "preview", "with_index"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place to which a cursor moves, or the entry to ack."""

    how: Literal["reset", "move", "one"]
    # Depending on `how`, the entry to deliver next, the new mark-delete position, or the entry to ack.
    position: Position
    # Bitset of the batch members that stay unacked. If the bitset is None, the target is not inside a batch.
    remaining: int | None = None
    # Requested place of a reset, if different from `position`.
    begins_at: Position | None = None
    notes: tuple[str, ...] = ()

    def first_message(self, partition: int | None) -> MessageId:
        """Return the first message that a reset leaves unacked. Call this only if `how` is "reset"."""
        left = self.remaining or 0
        if not left:
            return MessageId(*self.position)
        index = (left & -left).bit_length() - 1
        return MessageId(*self.position, partition=-1 if partition is None else partition, batch_index=index)

    def to_json(self) -> dict[str, object]:
        """Return the JSON that a plan stores. The notes are left out."""
        return {
            "how": self.how,
            "position": str(self.position),
            "remaining": None if self.remaining is None else f"{self.remaining:x}",
            "begins_at": None if self.begins_at is None else str(self.begins_at),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Target:
        """Return the target that `to_json` wrote."""
        remaining = raw["remaining"]
        begins_at = raw["begins_at"]
        return cls(
            how=raw["how"],
            position=Position.parse(raw["position"]),
            remaining=None if remaining is None else int(remaining, 16),
            begins_at=None if begins_at is None else Position.parse(begins_at),
        )

    def as_change(self) -> Change:
        """Return the change that moves a cursor to this target."""
        return Change(
            run=self.change,
            pinned=self.to_json(),
            begins_at=(self.begins_at or self.position) if self.how == "reset" else None,
            notes=self.notes,
            one=self.position if self.how == "one" else None,
            is_whole=self.how == "one" and self.remaining is None,
        )

    def change(self, cursor: Cursor) -> None:
        """Change the cursor. If message counts are not loaded, raise IndexMissing and change nothing."""
        if self.how == "reset":
            cursor.reset_to(self.position, self.remaining)
        elif self.how == "one":
            cursor.skip_one(self.position, self.remaining)
        else:
            cursor.move_mark_delete(self.position, self.remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a cursor, and the data that the plan stores about the change."""

    run: Callable[[Cursor], None]  # Must change nothing if it raises IndexMissing
    # JSON of the target. If this is None, the broker computes the change again when it applies the act.
    pinned: Mapping[str, object] | None = None
    begins_at: Position | None = None  # Requested place of a reset, even if this place is trimmed
    notes: tuple[str, ...] = ()
    one: Position | None = None  # The only entry that the change acks
    is_whole: bool = False  # Whether the change acks that entry completely

    def inside(self, cursor: Cursor) -> tuple[Position, int] | None:
        """Return the entry `one` and the bitset of its unacked messages. Call this right after the change.

        If `one` is None, use the next entry to read, or return None if no message of that entry is acked.
        """
        if self.one is None:
            return cursor.partly_acked_next()
        return self.one, cursor.remaining_of(self.one) or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """The effect that a move would have. Numbers count messages unless a comment says otherwise."""

    acked_before: int
    mark_delete_before: Position
    mark_delete_after: Position
    backlog_before: int
    backlog_after: int
    replayed: int  # Acked messages that will be delivered again
    skipped: int  # Unacked messages that will not be delivered
    partly_acked_forgotten: int  # Number of batches that lose all acks
    # Next entry to read, and the bitset of its unacked messages. None if no message of that entry is acked.
    inside_before: tuple[Position, int] | None
    inside_after: tuple[Position, int] | None


def preview(subscription: Subscription, change: Callable[[Cursor], None]) -> PlannedMove:
    """Try a change on a copy of the cursor. Raises IndexMissing if message counts are not loaded."""
    cursor, log = subscription.cursor, subscription.log
    before = cursor.snapshot()
    moved = Cursor(log.ledgers, log.index, before)
    change(moved)
    replayed = cursor.acked_only_here(moved).messages
    return PlannedMove(
        acked_before=cursor.totals.messages,
        mark_delete_before=cursor.mark_delete,
        mark_delete_after=moved.mark_delete,
        backlog_before=cursor.backlog_messages,
        backlog_after=moved.backlog_messages,
        replayed=replayed,
        skipped=moved.totals.messages - cursor.totals.messages + replayed,
        partly_acked_forgotten=sum(
            1
            for ledger_id, entry_id, _ in cursor.partly_acked(limit=sys.maxsize)
            if moved.remaining_of(Position(ledger_id, entry_id)) is None
        ),
        inside_before=cursor.partly_acked_next(),
        inside_after=moved.partly_acked_next(),
    )


async def with_index(reader: TopicReader, count: Callable[[], T]) -> T:
    """Load message counts until the function `count` succeeds, then return its result."""
    while True:
        try:
            return count()
        except IndexMissing as missing:
            await reader.load_index(missing.ranges)
