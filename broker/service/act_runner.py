"""The owner's side of acts: answers plans from memory and applies them (design 6 and 9).

Whoever asks inserts a row and notifies; a slow poll is the net. One act at a time: each takes milliseconds, and the
order in the log is the order they were asked in.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from broker.core.cursor import Cursor
from broker.core.cursor_state import AckOverlay
from broker.core.errors import BrokerError
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.service.act_plan import CLOSES_CONSUMERS, ActInvalid, PlannedMove, Target, find_target, preview
from broker.service.connections import ConnectionPool, first_line, repeat_until_done
from broker.storage import acts as store
from broker.storage import log as log_store

if TYPE_CHECKING:
    from broker.service.broker import Broker
    from broker.service.subscription import Subscription

__all__ = ["ActRunner"]

log = logging.getLogger(__name__)

_POLL_S = 1.0


class ActRunner:
    """Reads requests and answers each exactly once."""

    def __init__(self, broker: Broker, pool: ConnectionPool) -> None:
        self._broker = broker
        self._pool = pool
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; what waited while no broker ran is answered first."""
        self._work.set()
        self._task = asyncio.create_task(self._run(), name="acts")

    async def stop(self) -> None:
        """End after the act under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Somebody asked for something."""
        self._work.set()

    async def _run(self) -> None:
        while True:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._work.wait()
            self._work.clear()
            if not self._broker.is_ready()[0]:
                continue  # whoever holds the lock answers; this process asks again when it does
            try:
                async with self._pool.use() as connection:
                    waiting = await store.waiting(connection)
                for act in waiting:
                    await self._answer(act)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                log.info("acts: the database is away (%s)", first_line(error))
            except Exception:  # acts that come later must be answered
                log.exception("acts")

    async def _answer(self, act: store.WaitingAct) -> None:
        try:
            if act.waited_s > self._broker.settings.act_expiry_s:
                await self._finish(
                    act, state="expired", error="it waited too long for a broker; plan it again"
                )
            elif act.is_apply:
                await self._apply(act)
            else:
                await self._plan(act)
        except BrokerError as error:
            await self._finish(act, state="refused", error=str(error))
        except Exception:
            log.exception("act %s failed", act.act_id)
            await self._finish(act, state="failed", error="it failed inside the broker; its log says why")
        async with self._pool.use() as connection:
            await store.wake_requester(connection, act.act_id)

    async def _finish(
        self,
        act: store.WaitingAct,
        *,
        state: str,
        plan: Mapping[str, object] | None = None,
        error: str = "",
        cursor_version: int | None = None,
    ) -> None:
        text = None if plan is None else json.dumps(plan)
        await repeat_until_done(
            self._pool,
            lambda c: store.finish(
                c, act_id=act.act_id, state=state, plan=text, error=error, cursor_version=cursor_version
            ),
            what="answering an act",
        )

    async def _subscription(self, act: store.WaitingAct) -> Subscription:
        topic = await self._broker.topic(TopicName.parse(act.topic_name), create=False)
        subscription = topic.subscriptions.get(act.subscription_name)
        if subscription is None or not subscription.is_durable:
            raise ActInvalid(f"subscription {act.subscription_name} of {act.topic_name} does not exist")
        return subscription

    async def _plan(self, act: store.WaitingAct) -> None:
        subscription = await self._subscription(act)
        version = subscription.cursor.version
        notes: tuple[str, ...] = ()
        target: Target | None = None
        if act.kind == "undo":
            change = await self._undo_change(act, subscription)
        else:
            target = await find_target(subscription, act.kind, act.parameters)
            change, notes = target.change, target.notes
        move = await self._preview(subscription, change, is_undo=act.kind == "undo")
        await self._finish(
            act,
            state="planned",
            plan=await self._plan_json(subscription, act.kind, move, target, notes),
            cursor_version=version,
        )

    async def _apply(self, act: store.WaitingAct) -> None:
        subscription = await self._subscription(act)
        planned = act.plan or {}
        async with subscription.moves.moving(closes_consumers=act.kind in CLOSES_CONSUMERS):
            if subscription.cursor.version != act.cursor_version:
                raise ActInvalid(
                    "another act or a client's seek moved the cursor after this plan; plan again"
                )
            if act.kind == "undo":
                change = await self._undo_change(act, subscription)
            else:
                change = Target.from_json(planned["pinned"]).change
            move = await self._preview(subscription, change, is_undo=act.kind == "undo")
            if move.skipped > planned["skipped_messages"]:
                raise ActInvalid(
                    f"it would skip {move.skipped} messages, the plan showed {planned['skipped_messages']}; plan again"
                )
            closed = kept = 0
            if act.kind in CLOSES_CONSUMERS:
                closed = subscription.close_consumers(f"an operator moved the cursor (act {act.act_id})")
            else:
                kept = len(subscription.consumers)
            undo_window_s = self._broker.settings.undo_window_s
            await subscription.moves.commit(
                lambda: change(subscription.cursor),
                act_id=act.act_id,
                undo_window_s=undo_window_s,
                result=lambda: {
                    "before": str(move.mark_delete_before),
                    "after": str(subscription.cursor.mark_delete),
                    "replayed_messages": move.replayed,
                    "skipped_messages": move.skipped,
                    "acked_meanwhile_messages": max(0, planned["skipped_messages"] - move.skipped),
                    "backlog_messages": subscription.cursor.backlog_messages,
                    "consumers_closed": closed,
                    "consumers_kept": kept,
                },
            )
            if undo_window_s:
                subscription.cursor.start_undo_overlay()
                subscription.undo_until_ms = subscription.topic.services.clock.now_ms() + 1000 * undo_window_s

    async def _preview(
        self, subscription: Subscription, change: Callable[[Cursor], None], *, is_undo: bool
    ) -> PlannedMove:
        moves: list[PlannedMove] = []
        await subscription.moves.with_index(
            lambda: moves.append(preview(subscription, change, is_undo=is_undo))
        )
        return moves[-1]

    async def _undo_change(
        self, act: store.WaitingAct, subscription: Subscription
    ) -> Callable[[Cursor], None]:
        if act.undo_of is None:
            raise ActInvalid("an undo names the act it takes back")
        undo_of = act.undo_of
        source = await repeat_until_done(
            self._pool, lambda c: store.undo_source(c, undo_of), what="reading the act to undo"
        )
        latest = await repeat_until_done(
            self._pool,
            lambda c: store.latest_applied(c, subscription.subscription_id),
            what="finding the latest act",
        )
        if source is None or source.state != "applied" or source.before is None:
            raise ActInvalid(f"act {undo_of} moved no cursor that could be moved back")
        if latest != undo_of:
            raise ActInvalid(f"only the latest act on a cursor can be undone, and that is act {latest}")
        if not source.is_open:
            raise ActInvalid(f"the time to undo act {undo_of} is over")
        before = source.before
        after = Position.parse(str(source.result["after"]))
        overlay = subscription.cursor.undo_overlay() or AckOverlay()
        return lambda cursor: cursor.undo(before, after, overlay)

    async def _plan_json(
        self,
        subscription: Subscription,
        kind: str,
        move: PlannedMove,
        target: Target | None,
        notes: tuple[str, ...],
    ) -> dict[str, object]:
        ledgers = subscription.topic.log.ledgers
        following = ledgers.next_after(move.mark_delete_after)
        stored = ledgers.contains(following)
        closes = kind in CLOSES_CONSUMERS
        in_flight = sum(consumer.dispatch.unacked_messages for consumer in subscription.consumers.values())
        return {
            "current": {"mark_delete": str(move.mark_delete_before), "backlog_messages": move.backlog_before},
            "target": {
                "mark_delete": str(move.mark_delete_after),
                "next": str(following) if stored else None,
                "next_append_ms": await self._append_ms(subscription, following) if stored else None,
                "backlog_messages": move.backlog_after,
            },
            "pinned": None if target is None else target.to_json(),
            "replayed_messages": move.replayed,
            "skipped_messages": move.skipped,
            "in_flight_messages": in_flight,
            "consumers_closed": len(subscription.consumers) if closes else 0,
            "consumers_kept": 0 if closes else len(subscription.consumers),
            "partly_acked_forgotten": move.partly_acked_forgotten,
            "notes": list(notes),
        }

    async def _append_ms(self, subscription: Subscription, position: Position) -> int | None:
        return await repeat_until_done(
            self._pool,
            lambda c: log_store.append_ms_at(
                c,
                segment_id=subscription.topic.log.segments[position.ledger_id],
                ledger_id=position.ledger_id,
                entry_id=position.entry_id,
            ),
            what="reading a time",
        )
