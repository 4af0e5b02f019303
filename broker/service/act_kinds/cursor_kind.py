"""Acts that move one cursor: the same function makes the preview and the change (design 9).

A plan works on a copy of the cursor. It pins an absolute target; messages are counted, never entries.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from broker.core.cursor import Cursor
from broker.core.message_index import IndexMissing
from broker.core.position import Position
from broker.service.act_kinds.base import ActConflict, ActContext, ActKind, Plan
from broker.service.act_kinds.chunked import notes_on_chunks
from broker.service.counted import counted
from broker.storage import acts as store

if TYPE_CHECKING:
    from broker.service.subscription import Subscription
    from broker.service.topic import Topic

__all__ = ["Change", "CursorKind", "PlannedMove", "Target", "preview", "with_index"]

P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a cursor is to go: absolute, so that a plan means the same when it is applied."""

    how: Literal["reset", "move", "one"]
    position: (
        Position  # reset: the next to deliver; move: the new mark-delete position; one: the entry to ack
    )
    remaining: int | None = (
        None  # what stays unacked of the entry the target is inside of, None = between entries
    )
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As the plan keeps it."""
        return {
            "how": self.how,
            "position": str(self.position),
            "remaining": None if self.remaining is None else f"{self.remaining:x}",
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Target:
        """The reverse of `to_json`."""
        remaining = raw["remaining"]
        return cls(
            how=raw["how"],
            position=Position.parse(raw["position"]),
            remaining=None if remaining is None else int(remaining, 16),
        )

    def as_change(self) -> Change:
        """As a kind answers it."""
        return Change(
            run=self.change,
            pinned=self.to_json(),
            notes=self.notes,
            one=self.position if self.how == "one" else None,
            is_whole=self.how == "one" and self.remaining is None,
        )

    def change(self, cursor: Cursor) -> None:
        """Do it. Raises IndexMissing before anything changed."""
        if self.how == "reset":
            cursor.reset_to(self.position, self.remaining)
        elif self.how == "one":
            cursor.skip_one(self.position, self.remaining)
        else:
            cursor.move_mark_delete(self.position, self.remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an act does to a cursor, and what its plan keeps of that."""

    run: Callable[[Cursor], None]  # raises IndexMissing before anything changed
    pinned: Mapping[str, object] | None = None  # absolute target; None: found again when it is applied
    notes: tuple[str, ...] = ()
    one: Position | None = None  # it acks this entry beyond mark-delete
    is_whole: bool = False  # all of it

    def inside(self, cursor: Cursor) -> tuple[Position, int] | None:
        """Right after it: the entry of which it acked, or passed, a part, and what is left of that."""
        if self.one is None:
            return cursor.act_inside()
        return self.one, cursor.remaining_of(self.one) or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """The counts of a move, in messages."""

    mark_delete_before: Position
    mark_delete_after: Position
    backlog_before: int
    backlog_after: int
    replayed: int  # acked now, will be delivered again
    skipped: int  # not acked now, will not be delivered
    partly_acked_forgotten: int  # batches whose acked members come again
    inside: tuple[Position, int] | None  # the batch that the cursor comes to stand in, and what is left of it


class CursorKind(ActKind[P]):
    """Snapshot, move and result are stored together; acks meanwhile only change counts."""

    can_undo: ClassVar[bool] = True

    @abstractmethod
    async def find(self, context: ActContext, subscription: Subscription, given: P) -> Change:
        """What to do to the cursor as it is now. Raises ActInvalid."""

    def pinned(self, planned: Mapping[str, Any]) -> Change:
        """What the plan said, to be applied."""
        return Target.from_json(planned["pinned"]).as_change()

    async def plan(self, context: ActContext, given: P) -> Plan:
        subscription = await context.subscription()
        version = subscription.cursor.version
        change = await self.find(context, subscription, given)
        move = await self._preview(subscription, change)
        return Plan(shown=await self._shown(subscription, move, change), cursor_version=version)

    async def apply(self, context: ActContext, given: P) -> None:
        act, planned = context.act, context.act.plan or {}
        subscription = await context.subscription()
        async with subscription.moves.moving(closes_consumers=self.closes_consumers):
            if subscription.cursor.version != act.cursor_version:
                raise ActConflict(
                    "another act or a client's seek moved the cursor after this plan; plan again"
                )
            change = (
                await self.find(context, subscription, given)
                if planned["pinned"] is None
                else self.pinned(planned)
            )
            move = await self._preview(subscription, change)
            if move.skipped > planned["skipped_messages"]:
                skipped = counted(move.skipped, "message", "messages")
                raise ActConflict(
                    f"it would skip {skipped}, the plan showed {planned['skipped_messages']}; plan again"
                )
            closed = 0
            if self.closes_consumers:
                reason = f"an operator moved the cursor (act {act.act_id})"
                closed = subscription.close_consumers(reason, standby=False)
            kept = len(subscription.consumers)
            undo_window_s = context.broker.settings.undo_window_s if self.can_undo else 0
            recorded = await subscription.moves.commit(
                lambda: change.run(subscription.cursor),
                act_id=act.act_id,
                undo_window_s=undo_window_s,
                result=lambda: {
                    "before": str(move.mark_delete_before),
                    "after": str(subscription.cursor.mark_delete),
                    "inside": None
                    if change.is_whole
                    else store.inside_to_json(change.inside(subscription.cursor)),
                    "replayed_messages": move.replayed,
                    "skipped_messages": move.skipped,
                    "acked_meanwhile_messages": max(0, planned["skipped_messages"] - move.skipped),
                    "backlog_messages": subscription.cursor.backlog_messages,
                    "consumers_closed": closed,
                    "consumers_kept": kept,
                },
            )
            inside = change.inside(subscription.cursor)
            if inside is not None:
                subscription.act_passed(*inside)
            if undo_window_s:
                until_ms = subscription.topic.services.clock.now_ms() + 1000 * undo_window_s
                subscription.record_for_undo(act.act_id, until_ms, recorded)
            else:
                subscription.cursor.stop_undo_overlay()

    async def _preview(self, subscription: Subscription, change: Change) -> PlannedMove:
        return await with_index(subscription.topic, partial(preview, subscription, change.run))

    async def _shown(
        self, subscription: Subscription, move: PlannedMove, change: Change
    ) -> dict[str, object]:
        ledgers = subscription.topic.log.ledgers
        following = ledgers.next_after(move.mark_delete_after)
        stored = ledgers.contains(following)
        closed = len(subscription.served_consumers()) if self.closes_consumers else 0
        in_flight = sum(consumer.dispatch.unacked_messages for consumer in subscription.consumers.values())
        return {
            "current": {"mark_delete": str(move.mark_delete_before), "backlog_messages": move.backlog_before},
            "target": {
                "mark_delete": str(move.mark_delete_after),
                "next": str(following) if stored else None,
                "next_append_ms": await subscription.topic.reader.append_ms(following) if stored else None,
                "inside": None if change.one else store.inside_to_json(move.inside),
                "backlog_messages": move.backlog_after,
            },
            "pinned": change.pinned,
            "replayed_messages": move.replayed,
            "skipped_messages": move.skipped,
            "in_flight_messages": in_flight,
            "consumers_closed": closed,
            "consumers_kept": len(subscription.consumers) - closed,
            "partly_acked_forgotten": move.partly_acked_forgotten,
            "notes": [*change.notes, *await self._notes(subscription, move, change)],
        }

    async def _notes(self, subscription: Subscription, move: PlannedMove, change: Change) -> tuple[str, ...]:
        if change.one is not None or move.mark_delete_after == move.mark_delete_before:
            return ()
        return await notes_on_chunks(subscription.topic, move.mark_delete_after)


def preview(subscription: Subscription, change: Callable[[Cursor], None]) -> PlannedMove:
    """Run a change on a copy of the cursor and count. Raises IndexMissing."""
    cursor, log = subscription.cursor, subscription.topic.log
    before = cursor.snapshot()
    moved = Cursor(log.ledgers, log.index, before)
    change(moved)
    replayed = cursor.acked_only_here(moved).messages
    return PlannedMove(
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
        inside=moved.act_inside(),
    )


async def with_index(topic: Topic, count: Callable[[], T]) -> T:
    """What `count` returns, after loading the counts that it misses."""
    while True:
        try:
            return count()
        except IndexMissing as missing:
            await topic.reader.load_index(missing.ranges)
