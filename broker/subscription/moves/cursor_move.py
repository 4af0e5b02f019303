"""Move a subscription's cursor for an operator or a client.

An act is a change that the broker records.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from broker.core.cursor.state import AckOverlay
from broker.core.errors import (
    MetadataInvalid,
    PersistenceFailed,
    SubscriptionBusy,
    TopicFenced,
)
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.core.subscription.departure import DepartureCause
from broker.storage.acts import acts as store
from broker.storage.connection import Connection
from broker.storage.cursors import cursors as cursor_store
from broker.storage.pool import first_line, repeat_until_done
from broker.subscription.moves.staged import StagedMove

if TYPE_CHECKING:
    from broker.subscription.collaborators import Storing
    from broker.subscription.consumer import Consumer
    from broker.subscription.machine.machine import SubscriptionMachine
    from broker.subscription.runner import SubscriptionRunner

__all__ = ["CursorMove"]

logger = logging.getLogger(__name__)

_MOVED = "the topic moved to another broker"
# A reader that does not attach again within this time after a seek loses its cursor.
_RETURN_S: Final = 60.0


class CursorMove:
    """Moves one subscription's cursor.

    Methods that write to the database raise TopicFenced if another broker has taken over the topic, and
    PersistenceFailed if the database refuses the write. Do not cancel these methods.
    """

    def __init__(
        self,
        machine: SubscriptionMachine,
        runner: SubscriptionRunner,
        storing: Storing,
        *,
        forget: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._state = machine.state
        self._runner = runner
        self._storing = storing
        self._forget = forget
        self._gate = asyncio.Lock()
        self._resets = 0

    @property
    def storing(self) -> Storing:
        """The objects that all subscriptions use to store moves."""
        return self._storing

    @property
    def is_busy(self) -> bool:
        """Whether a move is under way, or `idle` prevents moves."""
        return self._gate.locked()

    @asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Wait for the end of the current move, and prevent moves during the block."""
        async with self._gate:
            yield

    @asynccontextmanager
    async def moving(self, *, closes_consumers: bool) -> AsyncIterator[None]:
        """Stop dispatch and put off acks during the block. Only one block runs at a time.

        Raises SubscriptionBusy if `closes_consumers` is set and another such block is running or waiting.
        """
        if closes_consumers and self._resets:
            raise SubscriptionBusy(f"{self._state.name} is being reset; try again when that is done")
        self._resets += closes_consumers
        try:
            async with self._gate:
                self._machine.begin_move()
                try:
                    yield
                finally:
                    self._machine.end_move()
                    self._runner.apply_put_off_acks()
                    self._runner.pump()
        finally:
            self._resets -= closes_consumers

    def forget_acks(self) -> None:
        """Refuse all acks until the end of the move, because the move forgets the pending entries.

        Call this inside `moving`, after all checks. Close the consumers immediately afterwards.
        """
        self._runner.carry_out(self._machine.forget_acks())

    async def seek(self, consumer: Consumer, position: Position, remaining: int | None) -> None:
        """Close the consumers and reset the cursor for a client's seek.

        On Failover, close only the active consumer and the consumer that seeks. Raises SubscriptionBusy.
        """
        cursor, runner = self._state.cursor, self._runner
        async with self.moving(closes_consumers=True):
            self.forget_acks()
            runner.close_consumers("the subscription was moved by a seek", standby=False)
            if consumer.is_open:  # A standby consumer that seeks must be closed too
                consumer.closed_by_broker("the subscription was moved by its own seek")
                runner.remove_consumer(consumer)
            if not self._state.is_durable:
                try:
                    await self.with_index(lambda: self._reset(position, remaining))
                    self.done()
                finally:
                    asyncio.get_running_loop().call_later(_RETURN_S, self._forget_unused)
                return
            act_id = await self._record_start(consumer, {"to": "id", "id": str(position)})
            before = cursor.mark_delete
            try:
                await self.commit(
                    lambda: cursor.reset_to(position, remaining),
                    begins_at=position,
                    act_id=act_id,
                    undo_window_s=0,
                    result=lambda: {"before": str(before), "after": str(cursor.mark_delete)},
                )
            except Exception as error:
                await self._finish(act_id, error=str(error) or repr(error))
                raise
            cursor.stop_undo_overlay()  # After this seek, earlier acts cannot be undone

    def _reset(self, position: Position, remaining: int | None) -> None:
        self._state.cursor.reset_to(position, remaining)
        self._state.begin_at(position)

    def _forget_unused(self) -> None:
        if not self._state.members:
            self._forget()

    def done(self) -> None:
        """Forget the pending entries that the cursor has passed, and read from the new position."""
        self._runner.carry_out(self._machine.moved())

    async def commit(
        self,
        change: Callable[[], None],
        *,
        act_id: int,
        undo_window_s: int,
        result: Callable[[], Mapping[str, object]],
        begins_at: Position | None = None,
    ) -> AckOverlay:
        """Change the cursor, and store the change, a snapshot of the old state and the act's result together.

        Call this inside `moving`, after a check that the subscription still exists. If `change` resets the cursor,
        `begins_at` is the requested position. Returns the act's `AckOverlay`, which has no client acks yet. To record
        later client acks for an undo, pass the overlay to `Subscription.record_for_undo`.

        After an error, the cursor is where it was before, or the topic is closed, because the move may have been
        stored.
        """
        async with self._storing.flusher.paused():
            staged = await self.stage(change, begins_at)

            async def store_move(connection: Connection, owner_epoch: int) -> bool | None:
                done = await staged.store(
                    connection, owner_epoch, act_id=act_id, result=outcome, undo_window_s=undo_window_s
                )
                return done or None

            try:
                outcome = json.dumps(dict(result()))
                with _refusal_named("the move"):
                    stored = await self._storing.epochs.write(
                        self._runner.log, store_move, what="moving a cursor"
                    )
            except asyncio.CancelledError:
                staged.abandon()
                raise
            except Exception:  # The move is not stored, and never will be, or the topic is closed
                staged.take_back()
                raise
            if not stored:
                staged.take_back()
                raise TopicFenced(_MOVED)
        return self.stored(staged)

    async def stage(self, change: Callable[[], None], begins_at: Position | None) -> StagedMove:
        """Change the cursor in memory only. Call this inside `moving`, while the flusher is paused."""
        state = self._state
        before, place_before = state.cursor.snapshot(), state.unstored_place
        await self.with_index(change)
        if begins_at is not None:
            state.begin_at(begins_at)
        return StagedMove(self._runner, state, before, place_before)

    def stored(self, staged: StagedMove) -> AckOverlay:
        """Finish a move that is stored. Return the same overlay as `commit`."""
        self._machine.stored(staged.after.mark_delete)
        self.done()
        return staged.recorded

    async def delete(self, consumer: Consumer, *, force: bool) -> None:
        """Delete the subscription for a client's unsubscribe.

        Raises MetadataInvalid if other consumers exist and `force` is not set. Raises SubscriptionBusy.
        """
        async with self.moving(closes_consumers=True):
            others = len(self._runner.consumers.keys() - {consumer.key})
            if others and not force:
                raise MetadataInvalid(
                    f"subscription {self._state.name} has other consumers ({others}); close them or use force"
                )
            self.forget_acks()
            # The client expects only SUCCESS, so do not tell it that its consumer is closed.
            consumer.is_open = False
            consumer.departure = DepartureCause.CLOSED
            self._runner.remove_consumer(consumer)
            self._runner.close_consumers("the subscription was removed")
            if not self._state.is_durable:
                self._forget()
                return
            act_id = await self._record_start(consumer, {}, kind="unsubscribe")
            try:
                await self.delete_rows()
            except Exception as error:
                await self._finish(act_id, error=str(error) or repr(error))
                raise
            self._forget()
            await self._finish(act_id)

    async def remove(self, reason: str) -> None:
        """Delete a durable subscription for an operator, and tell its clients the reason.

        Raises SubscriptionBusy. After an error, the subscription still exists.
        """
        async with self.moving(closes_consumers=True):
            self.forget_acks()
            self._runner.close_consumers(reason)
            await self.delete_rows()
            self._forget()

    async def delete_rows(self) -> None:
        """Delete the subscription's database rows. Call this inside `moving`."""
        log, subscription_id = self._runner.log, self._runner.subscription_id

        async def delete(connection: Connection, owner_epoch: int) -> bool | None:
            deleted = await cursor_store.delete_subscription(
                connection,
                topic_id=log.topic_id,
                subscription_id=subscription_id,
                owner_epoch=owner_epoch,
            )
            return deleted or None

        async with self._storing.flusher.paused():
            with _refusal_named("the removal"):
                is_deleted = await self._storing.epochs.write(log, delete, what="removing a subscription")
            if not is_deleted:
                raise TopicFenced(_MOVED)
            self._machine.deleted()

    async def _finish(self, act_id: int, *, error: str = "") -> None:
        with _refusal_named("the result of the act"):
            await repeat_until_done(
                self._storing.pool,
                lambda c: store.finish(c, act_id=act_id, state="failed" if error else "applied", error=error),
                what="writing an act's result",
            )

    async def with_index(self, change: Callable[[], None]) -> None:
        """Call `change`. If message counts are missing from memory, load the counts and try again."""
        while True:
            try:
                change()
            except IndexMissing as missing:
                await self._runner.reader.load_index(missing.ranges)
            else:
                return

    async def _record_start(
        self, consumer: Consumer, parameters: Mapping[str, object], *, kind: str = "seek"
    ) -> int:
        runner = self._runner
        with _refusal_named("the act"):
            return await repeat_until_done(
                self._storing.pool,
                lambda c: store.record_client_act(
                    c,
                    kind=kind,
                    topic_id=runner.log.topic_id,
                    subscription_id=runner.subscription_id,
                    topic_name=runner.log.name.full,
                    subscription_name=runner.name,
                    parameters=json.dumps(dict(parameters)),
                    who=consumer.name,
                    origin=f"client {consumer.identity.address}",
                    cursor_version=self._state.cursor.version,
                ),
                what="writing an act",
            )


@contextmanager
def _refusal_named(what: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise PersistenceFailed(f"the database refused {what}: {first_line(error)}") from error
