"""Acts that affected one message: they skipped it or made it a dead letter, or moved a cursor over it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.queries.database import fetch
from console.queries.topics.log import Place

__all__ = ["MOST_ACTS", "ActOnMessage", "Effect", "acts_on", "effect_of"]

MOST_ACTS: Final = 50  # of one subscription, the latest


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOnMessage:
    """An applied act on a subscription, with the fields from which `effect_of` finds its effect on a message."""

    id: int
    subscription_id: int
    kind: str
    who: str
    finished_ms: int
    before: str | None  # mark-delete, as ledger:entry
    after: str
    how: str | None  # one: it skipped the entry at `position`; otherwise it moved the cursor
    position: str | None  # ledger:entry
    # A bitset in hexadecimal: the messages of the batch at `position` that the act left alone.
    remaining: str | None
    letter_topic: str | None


class Effect(StrEnum):
    """The effect of an act on one message."""

    TAKEN_OUT = "taken_out"  # it was skipped, or sent to dead letters
    PASSED = "passed"  # the cursor moved past it
    BROUGHT_BACK = "brought_back"  # the cursor moved back before it


def acts_on(subscriptions: Collection[int], since_ms: int) -> list[ActOnMessage]:
    """Return the latest applied acts on these subscriptions since `since_ms`. One query.

    One act more than MOST_ACTS of a subscription means that there may be older ones.
    """
    if not subscriptions:
        return []
    return fetch(
        ActOnMessage,
        "story",
        "acts",
        {"subscriptions": list(subscriptions), "since_ms": since_ms, "limit": MOST_ACTS + 1},
    )


def effect_of(act: ActOnMessage, place: Place, batch_index: int) -> Effect | None:
    """Return the effect of an act on a message, or None if it had none."""
    if act.how == "one":
        if act.position is None or _place(act.position) != place:
            return None
        left_alone = (
            batch_index >= 0 and act.remaining is not None and int(act.remaining, 16) >> batch_index & 1
        )
        return None if left_alone else Effect.TAKEN_OUT
    if act.before is None:
        return None
    before, after = _place(act.before), _place(act.after)
    if before < place <= after:
        return Effect.PASSED
    return Effect.BROUGHT_BACK if after < place <= before else None


def _place(text: str) -> Place:
    ledger_id, _, entry_id = text.partition(":")
    return int(ledger_id), int(entry_id)
