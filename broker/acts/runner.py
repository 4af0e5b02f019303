"""Plan and apply acts inside the broker.

An act is a requested change, such as a cursor reset. If the notification of a request is lost, a poll finds the
request. Most acts run one at a time. Long acts run in the background.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from broker.acts.kinds.base import ActConflict, ActContext, ActExpired, ActKind, Part, PartlyDone, Plan
from broker.acts.kinds.registry import find_kind
from broker.acts.partitioned import parts_of, plan_parts, recorded_parts
from broker.core.errors import BrokerError, PersistenceFailed, SendOutcomeUnknown
from broker.storage.acts import acts as store
from broker.storage.acts import parts as part_store
from broker.storage.away import is_away
from broker.storage.pool import ConnectionPool, first_line, repeat_until_done
from broker.storage.supervised import for_ever

if TYPE_CHECKING:
    from broker.storage.connection import Connection
    from broker.tasks import BackgroundTasks

__all__ = ["ActRunner"]

logger = logging.getLogger(__name__)

_POLL_S = 1.0
_STOP_S = 1.0
_AT_ONCE = 8  # Maximum number of acts per query


class ActRunner:
    """Reads requests for acts, and answers one request at a time."""

    def __init__(
        self,
        context_of: Callable[[store.WaitingAct], ActContext],
        pool: ConnectionPool,
        tasks: BackgroundTasks,
        *,
        is_ready: Callable[[], bool],
        expiry_s: int,
    ) -> None:
        self._context_of = context_of
        self._pool = pool
        self._tasks = tasks
        self._is_ready = is_ready
        self._expiry_s = expiry_s
        self._work = asyncio.Event()
        self._answering = asyncio.Lock()
        self._awaited: dict[int, asyncio.Future[None]] = {}  # Keyed by act id
        self._task: asyncio.Task[None] | None = None
        self._has_resumed = False

    def start(self) -> None:
        """Start answering acts."""
        self._work.set()
        self._task = asyncio.create_task(for_ever(self._turn, what="answering acts"), name="acts")

    async def stop(self) -> None:
        """Stop answering acts. The current act has one second to finish."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._answering.acquire()  # Never released, so that no other act begins
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Look for requests now."""
        self._work.set()

    async def ask(self, store_request: Callable[[Connection], Awaitable[int | None]]) -> int | None:
        """Store a request, wait for the answer, and return the act's id, or None if nothing was stored.

        For a long act, the answer means that the work has started. Cancelling this call does not cancel the act. Raises
        BrokerError if the act does not succeed.
        """
        async with self._answering:  # `_turn` must not answer the act before `_awaited` has its future
            async with self._pool.use() as connection:
                act_id = await store_request(connection)
            if act_id is None:
                return None
            answer = self._awaited[act_id] = asyncio.get_running_loop().create_future()
        self._work.set()
        try:
            await answer
        finally:
            self._awaited.pop(act_id, None)
        return act_id

    async def _turn(self) -> None:
        # asyncio.wait_for is not used, because it can lose a cancellation in Python 3.11.
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await self._work.wait()
        self._work.clear()
        if not self._is_ready():
            return
        await self._resume()
        async with self._pool.use() as connection:
            waiting = await store.waiting(connection, most=_AT_ONCE)
        if len(waiting) == _AT_ONCE:
            self._work.set()
        for act in waiting:
            async with self._answering:
                await self._answer(act)

    async def _answer(self, act: store.WaitingAct) -> None:
        # Every path must change the act's state. Otherwise the next query returns the act again.
        try:
            refusal = await self._carry_out_or_refuse(act)
        except Exception as error:
            refusal = await self._fail(act, error)
        answer = self._awaited.pop(act.act_id, None)
        if answer is None or answer.done():
            async with self._pool.use() as connection:
                await store.wake_requester(connection, act.act_id)
        elif refusal is None:
            answer.set_result(None)
        else:
            answer.set_exception(refusal)

    async def _carry_out_or_refuse(self, act: store.WaitingAct) -> BrokerError | None:
        # An act with stored progress never expires, because an earlier broker may have done the work without storing
        # the result.
        if act.waited_s > self._expiry_s and act.progress is None:
            expired = ActExpired("no broker answered in time; plan it again")
            await self._finish(act, state="expired", error=str(expired), error_code=expired.code)
            return expired
        try:
            return await self._carry_out(act)
        except BrokerError as error:
            if isinstance(error, ActConflict) and error.preview is not None:
                await self._replan(act, error, error.preview)
            else:
                # After these two errors, the act may have changed something.
                state = "failed" if isinstance(error, SendOutcomeUnknown | PartlyDone) else "refused"
                await self._finish(act, state=state, error=str(error), error_code=error.code)
            return error

    async def _replan(self, act: store.WaitingAct, error: BrokerError, preview: Plan) -> None:
        plan_text = json.dumps(dict(preview.shown))
        await repeat_until_done(
            self._pool,
            lambda c: store.replan(
                c,
                act_id=act.act_id,
                plan=plan_text,
                cursor_version=preview.cursor_version,
                error=str(error),
                error_code=error.code,
            ),
            what="answering an act",
        )

    async def _carry_out(self, act: store.WaitingAct) -> BrokerError | None:
        kind = find_kind(act.kind)
        context = self._context_of(act)
        given = kind.read(act.parameters)
        parts = await parts_of(kind, context, given)
        if not act.is_apply:
            plan = await (kind.plan(context, given) if parts is None else plan_parts(kind, parts, given))
            await self._finish(act, state="planned", plan=plan.shown, cursor_version=plan.cursor_version)
        elif kind.is_long:
            await repeat_until_done(
                self._pool, lambda c: store.begin(c, act.act_id), what="beginning an act's long work"
            )
            self._start(kind, context, given)
        elif parts is not None:
            return await self._apply_parts(kind, context, parts, given)
        elif (result := await kind.apply(context, given)) is not None:
            await self._finish(act, state="applied", result=result)
        return None

    async def _apply_parts(
        self, kind: ActKind[Any], context: ActContext, parts: Sequence[Part], given: Any
    ) -> PartlyDone | None:
        try:
            result = await kind.apply_parts(context, parts, given)
        except PartlyDone as error:
            await self._finish_parts(context.act, parts, error.result, error)
            return error
        if result is not None:
            await self._finish_parts(context.act, parts, result)
        return None

    async def _finish_parts(
        self,
        act: store.WaitingAct,
        parts: Sequence[Part],
        result: Mapping[str, Any],
        error: PartlyDone | None = None,
    ) -> None:
        done = recorded_parts(parts, result)

        async def finish(connection: Connection) -> None:
            async with connection.transaction():
                await part_store.record_parts(connection, act_id=act.act_id, parts=done)
                await part_store.finish_whole(
                    connection,
                    act_id=act.act_id,
                    result=json.dumps(dict(result)),
                    error="" if error is None else str(error),
                    error_code="" if error is None else error.code,
                )

        await repeat_until_done(self._pool, finish, what="answering an act")

    def _start(self, kind: ActKind[Any], context: ActContext, given: Any) -> None:
        task = asyncio.create_task(self._carry_on(kind, context, given), name=f"act {context.act.act_id}")
        self._tasks.keep(task)

    async def _carry_on(self, kind: ActKind[Any], context: ActContext, given: Any) -> None:
        # If the broker stops, the act stays in the state `applying`. The next broker continues the work.
        act = context.act
        try:
            result = await kind.apply(context, given)
            await self._finish(act, state="applied", result=result)
        except BrokerError as error:
            await self._finish(act, state="failed", error=str(error), error_code=error.code)
        except Exception as error:
            await self._fail(act, error)
        async with self._pool.use() as connection:
            await store.wake_requester(connection, act.act_id)

    async def _resume(self) -> None:
        if self._has_resumed:
            return
        async with self._pool.use() as connection:
            await store.end_client_acts(connection)
            unfinished = await store.unfinished(connection)
        self._has_resumed = True
        for act in unfinished:
            logger.info(
                "act %s, %s: continuing the work of an earlier broker",
                act.act_id,
                act.kind,
                extra={"act": act.act_id},
            )
            try:
                kind = find_kind(act.kind)
                self._start(kind, self._context_of(act), kind.read(act.parameters))
            except BrokerError as error:
                await self._finish(act, state="failed", error=str(error), error_code=error.code)

    async def _fail(self, act: store.WaitingAct, error: Exception) -> BrokerError:
        if isinstance(error, psycopg.Error) and not is_away(error):
            fields = {"act": act.act_id}
            logger.error(
                "act %s failed: the database refused it: %s", act.act_id, first_line(error), extra=fields
            )
            failure: BrokerError = PersistenceFailed(f"the database refused it: {first_line(error)}")
        else:
            logger.error("act %s failed", act.act_id, exc_info=error, extra={"act": act.act_id})
            failure = BrokerError("the act failed inside the broker; the broker's log says why")
        await self._finish(act, state="failed", error=str(failure), error_code=failure.code)
        return failure

    async def _finish(
        self,
        act: store.WaitingAct,
        *,
        state: str,
        plan: Mapping[str, object] | None = None,
        result: Mapping[str, object] | None = None,
        error: str = "",
        error_code: str = "",
        cursor_version: int | None = None,
    ) -> None:
        plan_text = None if plan is None else json.dumps(dict(plan))
        result_text = None if result is None else json.dumps(dict(result))
        await repeat_until_done(
            self._pool,
            lambda c: store.finish(
                c,
                act_id=act.act_id,
                state=state,
                plan=plan_text,
                result=result_text,
                error=error,
                error_code=error_code,
                cursor_version=cursor_version,
            ),
            what="answering an act",
        )
