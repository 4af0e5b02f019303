"""The base class of acts that move one cursor or the cursors of several partitions."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from broker.acts.kinds.base import ActConflict, ActContext, ActKind, Part, Plan
from broker.acts.kinds.cursors.change import Change, PlannedMove, Target, preview, with_index
from broker.acts.kinds.cursors.chunked import notes_on_chunks
from broker.acts.kinds.cursors.ready_move import ReadyMove, apply_together, joint_complaint
from broker.acts.kinds.drift import Drift
from broker.acts.kinds.merged import merged_plan
from broker.acts.kinds.parts import named, part_json
from broker.core.errors import SubscriptionNotFound
from broker.storage.acts import acts as store

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.subscription.subscription import Subscription

__all__ = ["CursorKind"]

P = TypeVar("P")


class CursorKind(ActKind[P]):
    """An act that moves a cursor."""

    can_undo: ClassVar[bool] = True
    takes_partitions: ClassVar[bool] = True
    # If True, the act can redeliver messages that were acked after the act was planned.
    forgets_acks: ClassVar[bool] = False

    @abstractmethod
    async def find(self, context: ActContext, subscription: Subscription, given: P) -> Change:
        """Return the change for the cursor as it is now. Raises BrokerError to refuse the act."""

    def pinned(self, planned: Mapping[str, Any]) -> Change:
        """Return the change that a plan has recorded."""
        return Target.from_json(planned["pinned"]).as_change()

    async def prepare(
        self, context: ActContext, subscription: Subscription, change: Change
    ) -> Mapping[str, object]:
        """Do the work that must be durable before the cursor moves. Return fields to add to the act's result.

        This method must be fast, because dispatch and acks wait for it. Raises BrokerError to refuse the act.
        """
        return {}

    async def plan(self, context: ActContext, given: P) -> Plan:
        subscription = await context.subscription()
        version = subscription.cursor.version
        change = await self.find(context, subscription, given)
        move = await self._preview(subscription, change)
        return await self._planned(context, subscription, move, change, version)

    async def apply(self, context: ActContext, given: P) -> None:
        act = context.act
        subscription = await context.subscription()
        async with subscription.moves.moving(closes_consumers=self.closes_consumers):
            ready = await self._ready(context, subscription, given)
            if complaint := ready.complaint():
                raise ActConflict(complaint, preview=await self._planned_anew(ready))
            ready.prepared = await self.prepare(context, subscription, ready.change)
            ready.begin(act.act_id, closes_consumers=self.closes_consumers)
            undo_window_s = context.undo_window_s if self.can_undo else 0
            recorded = await subscription.moves.commit(
                ready.run,
                act_id=act.act_id,
                undo_window_s=undo_window_s,
                result=ready.result,
                begins_at=ready.change.begins_at,
            )
            ready.stored(act.act_id, recorded, undo_window_s=undo_window_s)

    async def apply_parts(self, context: ActContext, parts: Sequence[Part], given: P) -> None:
        subscriptions = []
        for part in parts:
            with named(part):
                subscriptions.append(await part.context.subscription())
        async with AsyncExitStack() as gates:
            moves: list[ReadyMove] = []
            for part, subscription in zip(parts, subscriptions, strict=True):
                with named(part):
                    gate = subscription.moves.moving(closes_consumers=self.closes_consumers)
                    await gates.enter_async_context(gate)
            for part, subscription in zip(parts, subscriptions, strict=True):
                with named(part):
                    moves.append(await self._ready(part.context, subscription, given))
                await asyncio.sleep(0)
            if complaint := joint_complaint(parts, moves, context.act.plan or {}):
                raise ActConflict(complaint, preview=await self._parts_planned_anew(parts, moves))
            for part, ready in zip(parts, moves, strict=True):
                with named(part):
                    ready.prepared = await self.prepare(part.context, ready.subscription, ready.change)
            undo_window_s = context.undo_window_s if self.can_undo else 0
            await apply_together(
                context.act.act_id,
                parts,
                moves,
                undo_window_s=undo_window_s,
                closes_consumers=self.closes_consumers,
            )

    async def _ready(self, context: ActContext, subscription: Subscription, given: P) -> ReadyMove:
        """Check the plan, and return the move of one cursor. Call this inside `moves.moving`."""
        # Without this check, a later error would say that the topic moved to another broker.
        if subscription.is_deleted:
            raise SubscriptionNotFound(f"subscription {subscription.name} was deleted meanwhile")
        act, planned = context.act, context.act.plan or {}
        if planned["current"].get("subscription_id") != subscription.subscription_id:
            raise ActConflict(
                f"subscription {subscription.name} was deleted and created again after this plan; plan again"
            )
        if subscription.cursor.version != act.cursor_version:
            raise ActConflict("another act or a client's seek moved the cursor after this plan; plan again")
        change = (
            await self.find(context, subscription, given)
            if planned["pinned"] is None
            else self.pinned(planned)
        )
        move = await self._preview(subscription, change)
        return ReadyMove(
            context=context,
            subscription=subscription,
            planned=planned,
            change=change,
            move=move,
            forgets_acks=self.forgets_acks,
        )

    async def _planned_anew(self, ready: ReadyMove) -> Plan:
        version = ready.subscription.cursor.version
        return await self._planned(ready.context, ready.subscription, ready.move, ready.change, version)

    async def _parts_planned_anew(self, parts: Sequence[Part], moves: Sequence[ReadyMove]) -> Plan:
        planned = []
        for part, ready in zip(parts, moves, strict=True):
            plan = await self._planned_anew(ready)
            planned.append(part_json(part, plan.shown, cursor_version=plan.cursor_version))
        return Plan(shown=merged_plan(planned))

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
        closed = len(subscription.served_consumers()) if self.closes_consumers else 0
        in_flight = sum(consumer.dispatch.unacked_messages for consumer in subscription.consumers.values())
        drift = (
            Drift(cause="acked", messages_per_s=context.reports.rates.acked_per_s(subscription))
            if self.forgets_acks
            else None
        )
        return {
            "current": {
                "subscription_id": subscription.subscription_id,
                "mark_delete": str(move.mark_delete_before),
                **await _next_entry(subscription, move.mark_delete_before, move.inside_before),
                "backlog_messages": move.backlog_before,
                "acked_messages": move.acked_before,
            },
            "target": {
                "mark_delete": str(move.mark_delete_after),
                **await _next_entry(subscription, move.mark_delete_after, move.inside_after),
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


async def _next_entry(
    subscription: Subscription, mark_delete: Position, inside: tuple[Position, int] | None
) -> dict[str, object]:
    """Return the fields of a plan that name the entry after a mark-delete position."""
    ledgers = subscription.log.ledgers
    following = ledgers.next_after(mark_delete)
    stored = ledgers.contains(following)
    return {
        "next": str(following) if stored else None,
        "next_append_ms": await subscription.reader.append_ms(following) if stored else None,
        "inside": store.inside_to_json(inside),
    }
