"""Find the acts that affected one message. An act is a logged change, such as the reset of a cursor."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.queries.database import fetch
from console.queries.topics.log import Place

__all__ = ["MOST_ACTS", "ActOnMessage", "Effect", "acts_on", "effects_of"]

MOST_ACTS: Final = 50  # For each subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOnMessage:
    """An applied act on a subscription."""

    id: int
    subscription_id: int
    kind: str
    who: str
    finished_ms: int
    before: str | None  # Mark-delete position before the act, written as ledger:entry
    after: str
    how: str | None  # If "one", the act acked a single entry or message
    position: str | None  # Planned target of the act
    inside: str | None  # Position of the partly acked batch, if the cursor moved into a batch
    remaining: str | None  # Hexadecimal bitset of unacked messages, if the target is in a batch
    undo_of: int | None
    letter_topic: str | None


class Effect(StrEnum):
    """The effect of an act on one message."""

    TAKEN_OUT = "taken_out"  # The message was skipped or sent to dead letters
    PASSED = "passed"  # The cursor moved past the message
    BROUGHT_BACK = "brought_back"  # The cursor moved to before the message, or an undo reversed a skip


def acts_on(subscriptions: Collection[int], since_ms: int) -> list[ActOnMessage]:
    """Return the latest acts that changed these subscriptions' cursors.

    Returns at most MOST_ACTS + 1 acts for each subscription. The extra act shows that there are more than MOST_ACTS.
    """
    if not subscriptions:
        return []
    return fetch(
        ActOnMessage,
        "story",
        "acts",
        {"subscriptions": list(subscriptions), "since_ms": since_ms, "limit": MOST_ACTS + 1},
    )


def effects_of(
    acts: Iterable[ActOnMessage], place: Place, batch_index: int
) -> list[tuple[ActOnMessage, Effect]]:
    """Return the acts that affected a message, with their effects.

    Pass the acts of one subscription, oldest first.
    """
    found: dict[int, tuple[ActOnMessage, Effect]] = {}
    is_out = False  # Whether the message is acked individually
    for act in acts:
        if act.how == "one":
            if _is_taken_out(act, place, batch_index):
                found[act.id] = act, Effect.TAKEN_OUT
                is_out = True
        elif act.before is not None:
            was_past = is_out or place <= _place(act.before)
            is_out = _place(act.after) < place and _leaves_out(
                act, found.get(act.undo_of or 0), place, batch_index, is_out=is_out
            )
            is_past = is_out or place <= _place(act.after)
            if was_past != is_past:
                found[act.id] = act, Effect.PASSED if is_past else Effect.BROUGHT_BACK
    return list(found.values())


def _is_taken_out(act: ActOnMessage, place: Place, batch_index: int) -> bool:
    if act.position is None or _place(act.position) != place:
        return False
    return batch_index < 0 or act.remaining is None or not int(act.remaining, 16) >> batch_index & 1


def _leaves_out(
    act: ActOnMessage,
    undone: tuple[ActOnMessage, Effect] | None,
    place: Place,
    batch_index: int,
    *,
    is_out: bool,
) -> bool:
    if undone is not None:
        return undone[1] is Effect.BROUGHT_BACK
    if _begins_beyond(act, place, batch_index):
        return True
    return is_out and act.how != "reset" and act.kind != "seek"  # A reset or a seek forgets every ack


def _begins_beyond(act: ActOnMessage, place: Place, batch_index: int) -> bool:
    if act.remaining is None or act.inside is None or act.position is None or _place(act.inside) != place:
        return False
    if act.how == "move" and act.position != act.after:
        # Consumers had acked past `position`, so `remaining` does not describe the batch `inside`.
        return False
    left_alone = int(act.remaining, 16)
    return 0 <= batch_index < (left_alone & -left_alone).bit_length() - 1


def _place(text: str) -> Place:
    ledger_id, _, entry_id = text.partition(":")
    return int(ledger_id), int(entry_id)
