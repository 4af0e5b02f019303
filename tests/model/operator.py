"""An operator's acts on one subscription, and what they must do to a set of acked messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.core.position import Position
from broker.storage.acts.acts import WaitingAct
from tests.support.memory_broker import MemoryRun

__all__ = ["Change", "Member", "Operator", "PlannedAct"]

Member = tuple[Position, int]  # a message: its entry, its index in it
Change = Callable[[set[Member]], set[Member]]  # what is acked → what is acked after the act


@dataclass(kw_only=True)
class PlannedAct:
    """An act that a broker has planned."""

    act_id: int
    kind: str
    undo_of: int | None
    change: Change
    parameters: Mapping[str, Any]


class Operator:
    """Asks the broker as the console does, without waiting for notifications."""

    def __init__(self, topic: str, subscription: str) -> None:
        self._topic = topic
        self._subscription = subscription

    async def plan(
        self,
        run: MemoryRun,
        kind: str,
        change: Change,
        parameters: Mapping[str, Any],
        undo_of: int | None = None,
    ) -> PlannedAct:
        """Plan an act; `change` is what the model says that it will do."""
        act_id = run.storage.plan_act(kind, run.subscription(self._topic, self._subscription).subscription_id)
        planned = PlannedAct(act_id=act_id, kind=kind, undo_of=undo_of, change=change, parameters=parameters)
        await self._ask(run, planned, is_apply=False)
        assert run.storage.acts[act_id].state == "planned", run.storage.acts[act_id].error
        return planned

    async def apply(
        self, run: MemoryRun, planned: PlannedAct, *, allowed_drift_messages: int | None = None
    ) -> bool:
        """Apply it; whether it was. None: with the drift that its plan allows."""
        plan = run.storage.acts[planned.act_id].plan
        if plan is not None and allowed_drift_messages is not None:
            plan["allowed_drift_messages"] = allowed_drift_messages
        await self._ask(run, planned, is_apply=True)
        state = run.storage.acts[planned.act_id].state
        assert state in ("applied", "refused")
        return state == "applied"

    async def _ask(self, run: MemoryRun, planned: PlannedAct, *, is_apply: bool) -> None:
        stored = run.storage.acts[planned.act_id]
        topic = run.topic(self._topic)
        await run.broker.acts._answer(
            WaitingAct(
                act_id=planned.act_id,
                kind=planned.kind,
                is_apply=is_apply,
                topic_id=topic.topic_id,
                subscription_id=stored.subscription_id,
                topic_name=topic.name.full,
                subscription_name=self._subscription,
                parameters=planned.parameters,
                plan=stored.plan,
                cursor_version=stored.cursor_version,
                undo_of=planned.undo_of,
                waited_s=0.0,
                who="operator",
                progress=None,
            )
        )
