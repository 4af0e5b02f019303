"""A fake of `broker.acts.requests` that answers from memory, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from broker.acts.requests import ActRefused, ActView
from tests.support.plans import a_plan

__all__ = ["FakeActs"]

THEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class FakeActs:
    """`refusal` makes every request fail; `answers` False leaves acts waiting."""

    acts: dict[int, ActView] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    next_plan: dict[str, Any] = field(default_factory=a_plan)
    refusal: str = ""
    answers: bool = True
    has_drifted: bool = False  # True: every apply is refused, with a new plan

    def plan(
        self,
        kind: str,
        *,
        topic: str,
        subscription: str,
        parameters: Mapping[str, object],
        who: str,
        origin: str,
        reason: str = "",
        wait_s: float = 2.0,
    ) -> ActView:
        self._ask("plan", (kind, topic, subscription, dict(parameters), who, origin))
        act = ActView(
            id=len(self.acts) + 1,
            kind=kind,
            state="planned" if self.answers else "plan_requested",
            topic=topic,
            subscription=subscription,
            parameters=parameters,
            plan=self.next_plan if self.answers else None,
            result=None,
            error="",
            who=who,
            origin=origin,
            reason=reason,
            cursor_version=2,
            undo_of=None,
            undo_until=None,
            created_at=THEN,
            requested_at=THEN,
            finished_at=None,
        )
        self.acts[act.id] = act
        return act

    def apply(
        self,
        act_id: int,
        *,
        who: str,
        origin: str,
        reason: str = "",
        allowed_drift_messages: int | None = None,
        wait_s: float = 2.0,
    ) -> ActView:
        self._ask("apply", (act_id, who, origin, reason, allowed_drift_messages))
        act = self.get(act_id)
        if self.has_drifted:
            return self._replanned(act)
        done = replace(
            act,
            state="applied",
            reason=reason,
            undo_until=datetime.now(UTC) + timedelta(hours=1),
            undoable=True,
            finished_at=THEN,
            result={
                "before": "1:4",
                "after": "1:0",
                "replayed_messages": 7,
                "skipped_messages": 0,
                "acked_meanwhile_messages": 4,
                "published_meanwhile_messages": 1,
                "consumers_closed": 1,
            },
        )
        self.acts[act_id] = done
        return done

    def _replanned(self, act: ActView) -> ActView:
        new_plan = replace(act, id=len(self.acts) + 1, plan=a_plan(replayed_messages=889))
        self.acts[new_plan.id] = new_plan
        self.acts[act.id] = replace(
            act,
            state="refused",
            error="889 messages would be delivered again, the plan showed 4",
            error_code="ActConflict",
            result={"new_plan": new_plan.id},
        )
        return self.acts[act.id]

    def refuse(self, act_id: int, *, who: str, origin: str, reason: str = "") -> ActView:
        self._ask("refuse", (act_id, who, origin, reason))
        self.acts[act_id] = replace(self.get(act_id), state="refused", error=reason)
        return self.acts[act_id]

    def plan_undo(
        self, act_id: int, *, who: str, origin: str, reason: str = "", wait_s: float = 2.0
    ) -> ActView:
        self._ask("plan_undo", (act_id, who, origin, reason))
        act = self.get(act_id)
        planned = replace(
            act,
            id=len(self.acts) + 1,
            kind="undo",
            state="planned",
            undo_of=act_id,
            reason=reason,
            result=None,
        )
        self.acts[planned.id] = planned
        return planned

    def get(self, act_id: int) -> ActView:
        if act_id not in self.acts:
            raise ActRefused(f"there is no act {act_id}")
        return self.acts[act_id]

    def _ask(self, what: str, given: Any) -> None:
        self.asked.append((what, given))
        if self.refusal:
            raise ActRefused(self.refusal)
