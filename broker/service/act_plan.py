"""What an act would do to a cursor, exactly: the same function makes the preview and the change (design 9).

A plan works on a copy of the cursor. It pins an absolute target; messages are counted, never entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from broker.core.cursor import Cursor
from broker.core.cursor_state import AckOverlay
from broker.core.errors import BrokerError
from broker.core.position import EARLIEST, Position

if TYPE_CHECKING:
    from broker.service.subscription import Subscription

__all__ = ["CLOSES_CONSUMERS", "KINDS", "ActInvalid", "PlannedMove", "Target", "find_target", "preview"]

T = TypeVar("T")

KINDS = ("reset", "skip", "clear", "undo")
CLOSES_CONSUMERS = frozenset(
    {"reset", "undo"}
)  # they come back by themselves; skip and clear keep them connected


class ActInvalid(BrokerError):
    """The act cannot be planned or applied; the text says what to change."""

    code = "MetadataError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a cursor is to go: absolute, so that a plan means the same when it is applied."""

    kind: str  # reset, skip or clear
    position: Position  # reset: the next to deliver; skip and clear: the new mark-delete position
    remaining: int | None  # ack set of the entry the target is inside of, None = between entries
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As the plan keeps it."""
        return {
            "kind": self.kind,
            "position": str(self.position),
            "remaining": None if self.remaining is None else f"{self.remaining:x}",
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Target:
        """The reverse of `to_json`."""
        remaining = raw["remaining"]
        return cls(
            kind=raw["kind"],
            position=Position.parse(raw["position"]),
            remaining=None if remaining is None else int(remaining, 16),
        )

    def change(self, cursor: Cursor) -> None:
        """Do it. Raises IndexMissing before anything changed."""
        if self.kind == "reset":
            cursor.reset_to(self.position, self.remaining)
        else:
            cursor.move_mark_delete(self.position, self.remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """The counts of a move, in messages."""

    mark_delete_before: Position
    mark_delete_after: Position
    backlog_before: int
    backlog_after: int
    replayed: int  # acked now, will be delivered again
    skipped: int  # not acked now, will not be delivered
    partly_acked_forgotten: int  # batches whose acked members come again


def preview(subscription: Subscription, change: Callable[[Cursor], None], *, is_undo: bool) -> PlannedMove:
    """Run a change on a copy of the cursor and count. Raises IndexMissing."""
    cursor, log = subscription.cursor, subscription.topic.log
    before = cursor.snapshot()
    moved = Cursor(log.ledgers, log.index, before)
    change(moved)
    # What is acked in either: the state now, plus everything the move acks.
    either = Cursor(log.ledgers, log.index, before)
    if is_undo:
        either.undo(moved.snapshot(), EARLIEST, AckOverlay())
    else:
        # A move adds acks up to its new mark-delete, and of the entry it ends inside of, nowhere else. Merging the two
        # as an undo must walks every hole: 50,000 of them blocked the loop for a second.
        inside = log.ledgers.next_after(moved.mark_delete)
        either.move_mark_delete(moved.mark_delete, moved.remaining_of(inside))
    return PlannedMove(
        mark_delete_before=cursor.mark_delete,
        mark_delete_after=moved.mark_delete,
        backlog_before=cursor.backlog_messages,
        backlog_after=moved.backlog_messages,
        replayed=either.totals.messages - moved.totals.messages,
        skipped=either.totals.messages - cursor.totals.messages,
        partly_acked_forgotten=sum(
            1
            for ledger_id, entry_id, _ in cursor.partly_acked()
            if moved.remaining_of(Position(ledger_id, entry_id)) is None
        ),
    )


async def find_target(subscription: Subscription, kind: str, parameters: Mapping[str, Any]) -> Target:
    """Turn an operator's words into a position. Raises ActInvalid."""
    cursor = subscription.cursor
    if kind == "clear":
        return Target(kind=kind, position=subscription.topic.log.ledgers.last_position(), remaining=None)
    if kind == "skip":
        messages = _number(parameters, "messages", least=1)
        found = await _with_index(subscription, lambda: cursor.position_after_messages(messages))
        notes: tuple[str, ...] = (
            () if found.messages == messages else (f"only {found.messages} messages are left to skip",)
        )
        return Target(kind=kind, position=found.mark_delete, remaining=found.remaining, notes=notes)
    if kind == "reset":
        return await _reset_target(subscription, parameters)
    raise ActInvalid(f"unknown act {kind!r}; one of {', '.join(KINDS)}")


async def _reset_target(subscription: Subscription, parameters: Mapping[str, Any]) -> Target:
    topic, to = subscription.topic, parameters.get("to")
    ledgers = topic.log.ledgers
    if to == "earliest":
        return _reset(ledgers.next_valid(EARLIEST))
    if to == "latest":
        return _reset(ledgers.end())
    if to in ("time", "back_time"):
        now_ms = topic.services.clock.now_ms()
        asked_ms = (
            _number(parameters, "time_ms", least=0)
            if to == "time"
            else now_ms - _number(parameters, "back_ms", least=1)
        )
        position = await topic.reader.position_at_time(asked_ms)
        first = next((info.first_append_ms for info in ledgers.infos() if info.entries), 0)
        notes: tuple[str, ...] = ()
        if first and asked_ms < first:
            notes = (
                f"the oldest message kept is {(first - asked_ms) / 1000:.0f} s younger than the time asked for",
            )
        return _reset(position, notes=notes)
    if to == "id":
        return await _reset_to_id(subscription, parameters)
    if to == "back_messages":
        messages = _number(parameters, "messages", least=1)
        position, remaining = await _with_index(
            subscription, lambda: subscription.cursor.rewind_position(messages)
        )
        return _reset(position, remaining)
    raise ActInvalid(f"reset to {to!r}: use earliest, latest, time, id, back_time or back_messages")


async def _reset_to_id(subscription: Subscription, parameters: Mapping[str, Any]) -> Target:
    ledgers = subscription.topic.log.ledgers
    try:
        position = Position.parse(str(parameters.get("id", "")))
    except ValueError as error:
        raise ActInvalid(f"message id {parameters.get('id')!r}: write it as ledger:entry") from error
    notes: tuple[str, ...] = ()
    if not parameters.get("inclusive", True):
        position = ledgers.next_after(position)
    if not ledgers.contains(position):
        landing = ledgers.next_valid(position)
        where = (
            f"the next message kept is {landing}"
            if ledgers.contains(landing)
            else "that is after the last message"
        )
        notes = (f"{position} is not stored; {where}",)
        position = landing
    return _reset(position, notes=notes)


def _reset(position: Position, remaining: int | None = None, notes: tuple[str, ...] = ()) -> Target:
    return Target(kind="reset", position=position, remaining=remaining, notes=notes)


def _number(parameters: Mapping[str, Any], name: str, *, least: int) -> int:
    value = parameters.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ActInvalid(f"{name} is {value!r}: it takes a whole number of at least {least}")
    return value


async def _with_index(subscription: Subscription, count: Callable[[], T]) -> T:
    found: list[T] = []
    await subscription.moves.with_index(lambda: found.append(count()))
    return found[-1]
