"""Operators' acts that have no undo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import psycopg

from broker.acts.kinds.base import ActConflict, ActContext, ActKind, Part, PartlyDone, Plan
from broker.acts.kinds.drift import Drift, Standing, more_than_planned
from broker.acts.kinds.merged import merged_plan, merged_result
from broker.acts.kinds.parts import named, part_json
from broker.core.errors import BrokerError, PersistenceFailed
from broker.storage.pool import first_line

__all__ = ["DirectKind", "Effect"]

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The measured effect of an act."""

    words: tuple[str, ...]
    replayed_messages: int = 0  # Acked messages that are delivered again
    skipped_messages: int = 0  # Unacked messages that are no longer delivered
    consumers_closed: int = 0
    consumers_kept: int = 0
    notes: tuple[str, ...] = ()
    pinned: Mapping[str, object] | None = None
    standing: Standing | None = None  # Message counts of the cursors that the act deletes
    published_per_s: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Return the effect as JSON for a plan or a result."""
        return {
            "words": list(self.words),
            "replayed_messages": self.replayed_messages,
            "skipped_messages": self.skipped_messages,
            "consumers_closed": self.consumers_closed,
            "consumers_kept": self.consumers_kept,
            "notes": list(self.notes),
            "pinned": self.pinned,
        }


class DirectKind(ActKind[P]):
    """A kind of act that has no undo. `measure` and `carry_out` must be safe to repeat."""

    @abstractmethod
    async def measure(self, context: ActContext, given: P) -> Effect:
        """Return the effect that the act would have now. Raises BrokerError to refuse the act."""

    @abstractmethod
    async def carry_out(self, context: ActContext, given: P) -> None:
        """Carry out the act. Raises BrokerError if the act is refused."""

    async def plan(self, context: ActContext, given: P) -> Plan:
        return self._planned(await self.measure(context, given))

    async def already_done(self, context: ActContext) -> Effect | None:
        """Return the effect if the act is already done, else None.

        A broker may have died after it carried out the act and before it stored the result.
        """
        return None

    async def apply(self, context: ActContext, given: P) -> Mapping[str, Any]:
        if (done := await self.already_done(context)) is not None:
            return done.to_json()
        planned = context.act.plan or {}
        effect = await self.measure(context, given)
        meanwhile = _meanwhile(planned, effect)
        if complaint := _why_not(planned, effect, meanwhile) or _drift_complaint(planned, meanwhile):
            raise ActConflict(complaint, preview=self._planned(effect))
        await context.begin()
        await self.carry_out(context, given)
        return effect.to_json() | meanwhile

    async def apply_parts(self, context: ActContext, parts: Sequence[Part], given: P) -> Mapping[str, Any]:
        measured = []
        for part in parts:
            with named(part):
                done = await self.already_done(part.context)
                measured.append(
                    _Measured(part, done or await self.measure(part.context, given), done is not None)
                )
        if complaint := _joint_complaint(measured, context.act.plan or {}):
            preview = [part_json(each.part, self._planned_again(each)) for each in measured]
            raise ActConflict(complaint, preview=Plan(shown=merged_plan(preview)))
        await context.begin()
        results: list[dict[str, Any]] = []
        error: BrokerError | None = None
        published = sum(each.published for each in measured)
        for each in measured:
            if error is not None:
                results.append(
                    part_json(each.part, {"error": "not tried, because an earlier partition failed"})
                )
                continue
            if not each.is_done:
                before = each.published
                each, error = await self._measured_again(each, given)
                published += each.published - before
                error = error or _drift_error(each, published, context.act.plan or {})
            if not each.is_done and error is None:
                error = await self._carried_out(each.part, given)
            shown = each.effect.to_json() | each.meanwhile if error is None else {"error": str(error)}
            results.append(part_json(each.part, shown))
        result = merged_result(results)
        if error is None:
            return result
        if all("error" in each for each in results):
            raise error
        raise PartlyDone(f"{error}; plan the act again for the partitions that are left", result=result)

    async def _measured_again(self, each: _Measured, given: P) -> tuple[_Measured, BrokerError | None]:
        """Measure again, because messages may have been published while earlier partitions were changed."""
        if each.effect.standing is None:
            return each, None
        try:
            with named(each.part):
                each = each._replace(effect=await self.measure(each.part.context, given))
        except BrokerError as error:
            return each, error
        return each, None

    async def _carried_out(self, part: Part, given: P) -> BrokerError | None:
        try:
            with named(part):
                await self.carry_out(part.context, given)
        except BrokerError as error:
            return error
        except psycopg.Error as error:
            return PersistenceFailed(
                f"partition {part.partition}: the database refused it: {first_line(error)}"
            )
        return None

    def _planned_again(self, each: _Measured) -> Mapping[str, Any]:
        return (
            {"left_out": "; ".join(each.effect.words)} if each.is_done else self._planned(each.effect).shown
        )

    def _planned(self, effect: Effect) -> Plan:
        shown = {**effect.to_json(), "notes": [*effect.notes, self.no_undo]}
        if effect.standing is not None:
            drift = Drift(cause="published", messages_per_s=effect.published_per_s)
            shown |= {
                "standing": effect.standing.to_json(),
                "drift": drift.to_json(0) if effect.standing.count else None,
                "allowed_drift_messages": drift.allowed_messages(0),
            }
        return Plan(shown=shown)


def _meanwhile(planned: Mapping[str, Any], effect: Effect) -> dict[str, int]:
    if effect.standing is not None:
        then = Standing.from_json(planned["standing"])
        return {
            "acked_meanwhile_messages": effect.standing.acked_messages - then.acked_messages,
            "published_meanwhile_messages": effect.standing.published_messages - then.published_messages,
        }
    if planned.get("skipped_messages"):
        return {"acked_meanwhile_messages": planned["skipped_messages"] - effect.skipped_messages}
    return {}


def _why_not(planned: Mapping[str, Any], effect: Effect, meanwhile: Mapping[str, int]) -> str:
    skipped, shown = effect.skipped_messages, planned["skipped_messages"]
    if effect.standing is None:
        if skipped <= shown:
            return ""
        return more_than_planned(skipped, shown, 0, "message would be lost", "messages would be lost")
    if effect.standing.cursors != planned["standing"]["cursors"] or meanwhile["acked_meanwhile_messages"] < 0:
        return "a cursor was created, moved or deleted after this plan; look at the new preview"
    return ""


def _drift_complaint(planned: Mapping[str, Any], meanwhile: Mapping[str, int]) -> str:
    new, allowed = meanwhile.get("published_meanwhile_messages", 0), planned.get("allowed_drift_messages", 0)
    if new <= allowed:
        return ""
    return more_than_planned(
        new,
        0,
        allowed,
        "message published after the plan would be lost",
        "messages published after the plan would be lost",
    )


class _Measured(NamedTuple):
    part: Part
    effect: Effect
    is_done: bool

    @property
    def planned(self) -> Mapping[str, Any]:
        return self.part.context.act.plan or {}

    @property
    def meanwhile(self) -> dict[str, int]:
        return {} if self.is_done else _meanwhile(self.planned, self.effect)

    @property
    def published(self) -> int:
        return self.meanwhile.get("published_meanwhile_messages", 0)


def _drift_error(each: _Measured, published: int, whole: Mapping[str, Any]) -> ActConflict | None:
    complaint = _why_not(each.planned, each.effect, each.meanwhile) or _drift_complaint(
        whole, {"published_meanwhile_messages": published}
    )
    return ActConflict(f"partition {each.part.partition}: {complaint}") if complaint else None


def _joint_complaint(measured: Sequence[_Measured], whole: Mapping[str, Any]) -> str:
    for each in measured:
        if not each.is_done and (complaint := _why_not(each.planned, each.effect, each.meanwhile)):
            return f"partition {each.part.partition}: {complaint}"
    published = [each.published for each in measured]
    complaint = _drift_complaint(whole, {"published_meanwhile_messages": sum(published)})
    if not complaint:
        return ""
    worst = measured[published.index(max(published))].part.partition
    return f"{complaint}; partition {worst} has more of them than any other"
