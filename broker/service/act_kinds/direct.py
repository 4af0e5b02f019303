"""Acts that change something other than a cursor's place: planned and applied by one function, never undone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from broker.service.act_kinds.base import ActConflict, ActContext, ActKind, Plan
from broker.service.counted import counted

__all__ = ["DirectKind", "Effect"]

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What such an act does, measured at one moment."""

    words: tuple[str, ...]  # sentences, shown before and after
    replayed_messages: int = 0  # acked, and delivered again
    skipped_messages: int = 0  # not acked, and never delivered any more
    consumers_closed: int = 0
    consumers_kept: int = 0
    notes: tuple[str, ...] = ()
    pinned: Mapping[str, object] | None = None  # what apply takes from the plan instead of finding it anew

    def to_json(self) -> dict[str, object]:
        """As plan and result keep it."""
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
    """`measure` says what it would do, `carry_out` does it. Both must be safe to repeat."""

    no_undo: ClassVar[str] = "it cannot be undone"  # said before

    @abstractmethod
    async def measure(self, context: ActContext, given: P) -> Effect:
        """What it would do now. Raises ActInvalid when it makes no sense."""

    @abstractmethod
    async def carry_out(self, context: ActContext, given: P) -> None:
        """Do it. Raises BrokerError."""

    async def plan(self, context: ActContext, given: P) -> Plan:
        effect = await self.measure(context, given)
        return Plan(shown={**effect.to_json(), "notes": [*effect.notes, self.no_undo]})

    async def apply(self, context: ActContext, given: P) -> Mapping[str, Any]:
        planned = context.act.plan or {}
        effect = await self.measure(context, given)
        if effect.skipped_messages > planned.get("skipped_messages", 0):
            dropped = counted(effect.skipped_messages, "message", "messages")
            raise ActConflict(
                f"it would drop {dropped}, the plan showed {planned.get('skipped_messages', 0)}; plan again"
            )
        await self.carry_out(context, given)
        return effect.to_json()
