"""An operator's acts on a subscription, and what they must do to a set of acked messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.storage.acts.acts import WaitingAct
from tests.support.memory_broker import MemoryRun

__all__ = ["Change", "Member", "Operator", "PlannedAct"]

Member = tuple[Position, int]  # a message: the position of its entry, and its index in the entry
Change = Callable[[set[Member]], set[Member]]  # acked messages before the act → acked messages after it


@dataclass(kw_only=True)
class PlannedAct:
    """An act that a broker has planned."""

    act_id: int
    kind: str
    undo_of: int | None
    change: Change
    parameters: Mapping[str, Any]


class Operator:
    """Requests acts from the broker as the console does, but without notifications."""

    def __init__(self, topic: str, subscription: str) -> None:
        self._topic = TopicName.parse(topic).full  # may be partitioned
        self._subscription = subscription

    async def plan(
        self,
        run: MemoryRun,
        kind: str,
        change: Change,
        parameters: Mapping[str, Any],
        undo_of: int | None = None,
    ) -> PlannedAct:
        """Plan an act whose effect in the model is `change`. Raises AssertionError if the act is refused."""
        planned = await self._asked(run, kind, change, parameters, undo_of)
        act = run.storage.acts[planned.act_id]
        assert act.state == "planned", act.error
        return planned

    async def refused_undo(self, run: MemoryRun, undo_of: int) -> str:
        """Return why an undo is refused. Raises AssertionError if the broker plans it."""
        planned = await self._asked(run, "undo", set, {}, undo_of)
        act = run.storage.acts[planned.act_id]
        assert act.state == "refused", act.state
        return act.error

    async def _asked(
        self,
        run: MemoryRun,
        kind: str,
        change: Change,
        parameters: Mapping[str, Any],
        undo_of: int | None,
    ) -> PlannedAct:
        is_partitioned = self._topic in run.storage.partitions
        one = None if is_partitioned else run.subscription(self._topic, self._subscription).subscription_id
        act_id = run.storage.plan_act(kind, one)
        planned = PlannedAct(act_id=act_id, kind=kind, undo_of=undo_of, change=change, parameters=parameters)
        await self._ask(run, planned, is_apply=False)
        return planned

    async def apply(
        self, run: MemoryRun, planned: PlannedAct, *, allowed_drift_messages: int | None = None
    ) -> bool:
        """Apply a plan, and return whether it was applied. By default, the plan's own drift is allowed."""
        plan = run.storage.acts[planned.act_id].plan
        if plan is not None and allowed_drift_messages is not None:
            plan["allowed_drift_messages"] = allowed_drift_messages
        await self._ask(run, planned, is_apply=True)
        state = run.storage.acts[planned.act_id].state
        assert state in ("applied", "refused")
        return state == "applied"

    async def _ask(self, run: MemoryRun, planned: PlannedAct, *, is_apply: bool) -> None:
        stored = run.storage.acts[planned.act_id]
        await run.broker.acts._answer(
            WaitingAct(
                act_id=planned.act_id,
                kind=planned.kind,
                is_apply=is_apply,
                topic_id=run.storage.topics[self._topic],
                subscription_id=stored.subscription_id,
                topic_name=self._topic,
                subscription_name=self._subscription,
                parameters=planned.parameters,
                plan=stored.plan,
                cursor_version=stored.cursor_version,
                undo_of=planned.undo_of,
                waited_s=0.0,
                who="operator",
                progress=None,
                message=None,
            )
        )
