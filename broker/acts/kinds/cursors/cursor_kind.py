"""Acts that move one cursor. The same function computes the preview and makes the change.

A plan works on a copy of the cursor and fixes an absolute target. It counts messages, never entries.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from broker.acts.kinds.base import ActConflict, ActContext, ActKind, Plan
from broker.acts.kinds.cursors.chunked import notes_on_chunks
from broker.acts.kinds.drift import Drift, more_than_planned
from broker.core.cursor.cursor import Cursor
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.storage.acts import acts as store

if TYPE_CHECKING:
    from broker.log.reader import TopicReader
    from broker.subscription.subscription import Subscription

__all__ = ["Change", "CursorKind", "PlannedMove", "Target", "preview", "with_index"]

P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a cursor goes. Absolute, so that the plan means the same when it is applied."""

    how: Literal["reset", "move", "one"]
    # reset: the next to deliver; move: the new mark-delete position; one: the entry to ack
    position: Position
    # If the target is inside a batch, the members that stay unacked; None = between entries.
    remaining: int | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the target as a plan stores it."""
        return {
            "how": self.how,
            "position": str(self.position),
            "remaining": None if self.remaining is None else f"{self.remaining:x}",
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Target:
        """Read what `to_json` has written."""
        remaining = raw["remaining"]
        return cls(
            how=raw["how"],
            position=Position.parse(raw["position"]),
            remaining=None if remaining is None else int(remaining, 16),
        )

    def as_change(self) -> Change:
        """Return the change that moves a cursor to this target."""
        return Change(
            run=self.change,
            pinned=self.to_json(),
            notes=self.notes,
            one=self.position if self.how == "one" else None,
            is_whole=self.how == "one" and self.remaining is None,
        )

    def change(self, cursor: Cursor) -> None:
        """Move the cursor. Raises IndexMissing, and has changed nothing then."""
        if self.how == "reset":
            cursor.reset_to(self.position, self.remaining)
        elif self.how == "one":
            cursor.skip_one(self.position, self.remaining)
        else:
            cursor.move_mark_delete(self.position, self.remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an act does to a cursor, and what its plan stores about it."""

    run: Callable[[Cursor], None]  # raises IndexMissing, and has changed nothing then
    pinned: Mapping[str, object] | None = None  # absolute target; None: found again when the act is applied
    notes: tuple[str, ...] = ()
    one: Position | None = None  # the change acks this entry beyond mark-delete
    is_whole: bool = False  # the change acks all of that entry

    def inside(self, cursor: Cursor) -> tuple[Position, int] | None:
        """Return, right after the change, the entry that it acked or skipped in part, and what is left of it."""
        if self.one is None:
            return cursor.partly_acked_next()
        return self.one, cursor.remaining_of(self.one) or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """The counts of a move, in messages."""

    acked_before: int  # since the topic began
    mark_delete_before: Position
    mark_delete_after: Position
    backlog_before: int
    backlog_after: int
    replayed: int  # acked now, will be delivered again
    skipped: int  # not acked now, will not be delivered
    partly_acked_forgotten: int  # batches whose acked members are delivered again
    inside: tuple[Position, int] | None  # the batch that the cursor will stand in, and what is left of it


class CursorKind(ActKind[P]):
    """Stores snapshot, move and result together. Acks after the plan may change the counts within the plan's limits."""

    can_undo: ClassVar[bool] = True
    # True: after acks between plan and apply, more messages are delivered again.
    forgets_acks: ClassVar[bool] = False

    @abstractmethod
    async def find(self, context: ActContext, subscription: Subscription, given: P) -> Change:
        """Return what to do to the cursor as it is now. Raises ActInvalid."""

    def pinned(self, planned: Mapping[str, Any]) -> Change:
        """Return the change that a plan has fixed."""
        return Target.from_json(planned["pinned"]).as_change()

    async def plan(self, context: ActContext, given: P) -> Plan:
        subscription = await context.subscription()
        version = subscription.cursor.version
        change = await self.find(context, subscription, given)
        move = await self._preview(subscription, change)
        return await self._planned(context, subscription, move, change, version)

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
            if complaint := _what_has_grown(planned, move):
                raise ActConflict(
                    complaint,
                    preview=await self._planned(
                        context, subscription, move, change, subscription.cursor.version
                    ),
                )
            closed = 0
            if self.closes_consumers:
                subscription.moves.forget_acks()
                reason = f"an operator moved the cursor (act {act.act_id})"
                closed = subscription.close_consumers(reason, standby=False)
            kept = len(subscription.consumers)
            undo_window_s = context.undo_window_s if self.can_undo else 0
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
                    "acked_meanwhile_messages": self._acked_meanwhile(planned, move),
                    "published_meanwhile_messages": _published(subscription) - _published_then(planned),
                    "backlog_messages": subscription.cursor.backlog_messages,
                    "consumers_closed": closed,
                    "consumers_kept": kept,
                },
            )
            inside = change.inside(subscription.cursor)
            if inside is not None:
                subscription.act_passed(*inside)
            if undo_window_s:
                until_ms = context.clock.now_ms() + 1000 * undo_window_s
                subscription.record_for_undo(act.act_id, until_ms, recorded)
            else:
                subscription.cursor.stop_undo_overlay()

    def _acked_meanwhile(self, planned: Mapping[str, Any], move: PlannedMove) -> int:
        """Return how many messages consumers acked after the plan.

        The cursor does not count those that an earlier act had skipped. Only the undo of that act knows about them, and
        it brings back fewer messages.
        """
        counted_by_cursor = move.acked_before - int(planned["current"]["acked_messages"])
        if self.forgets_acks:
            return counted_by_cursor
        return counted_by_cursor + max(0, int(planned["replayed_messages"]) - move.replayed)

    async def _preview(self, subscription: Subscription, change: Change) -> PlannedMove:
        return await with_index(subscription.reader, partial(preview, subscription, change.run))

    async def _planned(
        self,
        context: ActContext,
        subscription: Subscription,
        move: PlannedMove,
        change: Change,
        version: int,
    ) -> Plan:
        return Plan(shown=await self._shown(context, subscription, move, change), cursor_version=version)

    async def _shown(
        self, context: ActContext, subscription: Subscription, move: PlannedMove, change: Change
    ) -> dict[str, object]:
        ledgers = subscription.log.ledgers
        following = ledgers.next_after(move.mark_delete_after)
        stored = ledgers.contains(following)
        closed = len(subscription.served_consumers()) if self.closes_consumers else 0
        in_flight = sum(consumer.dispatch.unacked_messages for consumer in subscription.consumers.values())
        drift = (
            Drift(cause="acked", messages_per_s=context.reports.rates.acked_per_s(subscription))
            if self.forgets_acks
            else None
        )
        return {
            "current": {
                "mark_delete": str(move.mark_delete_before),
                "backlog_messages": move.backlog_before,
                "acked_messages": move.acked_before,
            },
            "target": {
                "mark_delete": str(move.mark_delete_after),
                "next": str(following) if stored else None,
                "next_append_ms": await subscription.reader.append_ms(following) if stored else None,
                "inside": None if change.one else store.inside_to_json(move.inside),
                "backlog_messages": move.backlog_after,
            },
            "pinned": change.pinned,
            "replayed_messages": move.replayed,
            "skipped_messages": move.skipped,
            "drift": None if drift is None else drift.to_json(move.replayed),
            "allowed_drift_messages": 0 if drift is None else drift.allowed_messages(move.replayed),
            "in_flight_messages": in_flight,
            "consumers_closed": closed,
            "consumers_kept": len(subscription.consumers) - closed,
            "partly_acked_forgotten": move.partly_acked_forgotten,
            "notes": [*change.notes, *await self._notes(context, move, change)],
        }

    async def _notes(self, context: ActContext, move: PlannedMove, change: Change) -> tuple[str, ...]:
        if change.one is not None or move.mark_delete_after == move.mark_delete_before:
            return ()
        return await notes_on_chunks(await context.topic(), move.mark_delete_after)


def _what_has_grown(planned: Mapping[str, Any], move: PlannedMove) -> str:
    """Say why a plan is not applied: it would do more than it announced. Empty if it would not."""
    replayed, skipped = planned["replayed_messages"], planned["skipped_messages"]
    allowed = planned["allowed_drift_messages"]
    if move.skipped > skipped:
        return more_than_planned(
            move.skipped, skipped, 0, "message would be skipped", "messages would be skipped"
        )
    if move.replayed > replayed + allowed:
        return more_than_planned(
            move.replayed,
            replayed,
            allowed,
            "message would be delivered again",
            "messages would be delivered again",
        )
    if move.acked_before < planned["current"]["acked_messages"]:
        return "the broker was restarted and lost acks that it had not stored; look at the new preview"
    return ""


def _published(subscription: Subscription) -> int:
    return subscription.log.ledgers.total_messages


def _published_then(planned: Mapping[str, Any]) -> int:
    current = planned["current"]
    return int(current["backlog_messages"]) + int(current["acked_messages"])


def preview(subscription: Subscription, change: Callable[[Cursor], None]) -> PlannedMove:
    """Run a change on a copy of the cursor and count. Raises IndexMissing."""
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
        inside=moved.partly_acked_next(),
    )


async def with_index(reader: TopicReader, count: Callable[[], T]) -> T:
    """Return what `count` returns, after loading the message counts that it misses."""
    while True:
        try:
            return count()
        except IndexMissing as missing:
            await reader.load_index(missing.ranges)
