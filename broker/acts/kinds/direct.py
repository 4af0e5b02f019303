"""Acts that change something other than a cursor's place. One function plans and applies them; none can be undone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from broker.acts.kinds.base import ActConflict, ActContext, ActKind, Plan
from broker.acts.kinds.drift import Drift, Standing, more_than_planned

__all__ = ["DirectKind", "Effect"]

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What such an act does, measured at one moment."""

    words: tuple[str, ...]  # sentences, shown before and after
    replayed_messages: int = 0  # acked, and delivered again
    skipped_messages: int = 0  # not acked, and never delivered
    consumers_closed: int = 0
    consumers_kept: int = 0
    notes: tuple[str, ...] = ()
    pinned: Mapping[str, object] | None = None  # what apply takes from the plan instead of finding it again
    standing: Standing | None = (
        None  # of the cursors that the act deletes; it skips the messages they have not acked
    )
    published_per_s: float = 0.0  # messages for these cursors

    def to_json(self) -> dict[str, object]:
        """Return the effect as plan and result store it."""
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
    """`measure` says what the act would do, `carry_out` does it. Both must be safe to repeat."""

    no_undo: ClassVar[str] = "it cannot be undone"  # a note of the plan

    @abstractmethod
    async def measure(self, context: ActContext, given: P) -> Effect:
        """Return what the act would do now. Raises ActInvalid if it makes no sense."""

    @abstractmethod
    async def carry_out(self, context: ActContext, given: P) -> None:
        """Do it. Raises BrokerError."""

    async def plan(self, context: ActContext, given: P) -> Plan:
        return self._planned(await self.measure(context, given))

    async def apply(self, context: ActContext, given: P) -> Mapping[str, Any]:
        planned = context.act.plan or {}
        effect = await self.measure(context, given)
        meanwhile = _meanwhile(planned, effect)
        if complaint := _what_has_grown(planned, effect, meanwhile):
            raise ActConflict(complaint, preview=self._planned(effect))
        await self.carry_out(context, given)
        return effect.to_json() | meanwhile

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
    """Return how many messages were acked and published between plan and apply. Empty if the act loses no messages."""
    if effect.standing is not None:
        then = Standing.from_json(planned["standing"])
        return {
            "acked_meanwhile_messages": effect.standing.acked_messages - then.acked_messages,
            "published_meanwhile_messages": effect.standing.published_messages - then.published_messages,
        }
    if planned.get("skipped_messages"):
        return {"acked_meanwhile_messages": planned["skipped_messages"] - effect.skipped_messages}
    return {}


def _what_has_grown(planned: Mapping[str, Any], effect: Effect, meanwhile: Mapping[str, int]) -> str:
    """Say why a plan is not applied: it would lose messages that it did not show. Empty if it would not."""
    skipped, shown = effect.skipped_messages, planned["skipped_messages"]
    if effect.standing is None:
        if skipped <= shown:
            return ""
        return more_than_planned(skipped, shown, 0, "message would be lost", "messages would be lost")
    if effect.standing.cursors != planned["standing"]["cursors"] or meanwhile["acked_meanwhile_messages"] < 0:
        return "a cursor was created, moved or deleted after this plan; look at the new preview"
    allowed = planned["allowed_drift_messages"]
    if meanwhile["published_meanwhile_messages"] <= allowed:
        return ""
    new = meanwhile["published_meanwhile_messages"]
    return more_than_planned(
        new,
        0,
        allowed,
        "message published after the plan would be lost",
        "messages published after the plan would be lost",
    )
