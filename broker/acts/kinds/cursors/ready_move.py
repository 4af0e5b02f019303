"""Check and move the cursors of an operator's act, and store the result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.acts.kinds.base import ActContext, Part
from broker.acts.kinds.cursors.change import Change, PlannedMove
from broker.acts.kinds.drift import more_than_planned
from broker.acts.kinds.merged import merged_result
from broker.acts.kinds.parts import part_json
from broker.storage.acts import acts as store
from broker.storage.acts.parts import RecordedPart
from broker.subscription.moves.together import MovePart, commit_together

if TYPE_CHECKING:
    from broker.core.cursor.state import AckOverlay
    from broker.subscription.subscription import Subscription

__all__ = ["ReadyMove", "apply_together", "joint_complaint"]


@dataclass(slots=True, kw_only=True)
class ReadyMove:
    """The move of one cursor. Use this class inside `moves.moving`, where no ack changes the cursor."""

    context: ActContext
    subscription: Subscription
    planned: Mapping[str, Any]
    change: Change
    move: PlannedMove
    forgets_acks: bool
    closed: int = 0
    kept: int = 0
    prepared: Mapping[str, object] = field(default_factory=dict)

    def complaint(self) -> str:
        """Return why the plan is refused, or an empty string."""
        replayed, allowed = self.planned["replayed_messages"], self.planned["allowed_drift_messages"]
        return self.hard_complaint() or replay_complaint(self.move.replayed, replayed, allowed)

    def hard_complaint(self) -> str:
        """Return why the plan is refused, or an empty string.

        Does not check how many messages would be delivered again.
        """
        skipped = self.planned["skipped_messages"]
        if self.move.skipped > skipped:
            return more_than_planned(
                self.move.skipped, skipped, 0, "message would be skipped", "messages would be skipped"
            )
        if self.move.acked_before < self.planned["current"]["acked_messages"]:
            return "the broker was restarted and lost acks that it had not stored; look at the new preview"
        return ""

    def begin(self, act_id: int, *, closes_consumers: bool) -> None:
        """Close the consumers if requested. Call this after the last check that could refuse the move."""
        if closes_consumers:
            self.subscription.moves.forget_acks()
            reason = f"an operator moved the cursor (act {act_id})"
            self.closed = self.subscription.close_consumers(reason, standby=False)
        self.kept = len(self.subscription.consumers)

    def run(self) -> None:
        """Change the cursor. If message counts are not loaded, raise IndexMissing and change nothing."""
        self.change.run(self.subscription.cursor)

    def result(self) -> dict[str, Any]:
        """Return the act's result for this cursor. Call this right after the change."""
        cursor = self.subscription.cursor
        current = self.planned["current"]
        published_then = int(current["backlog_messages"]) + int(current["acked_messages"])
        return {
            "before": str(self.move.mark_delete_before),
            "after": str(cursor.mark_delete),
            "inside": None if self.change.is_whole else store.inside_to_json(self.change.inside(cursor)),
            "replayed_messages": self.move.replayed,
            "skipped_messages": self.move.skipped,
            "acked_meanwhile_messages": self._acked_meanwhile(),
            "published_meanwhile_messages": self.subscription.log.ledgers.total_messages - published_then,
            "backlog_messages": cursor.backlog_messages,
            "consumers_closed": self.closed,
            "consumers_kept": self.kept,
            **self.prepared,
        }

    def stored(self, act_id: int, recorded: AckOverlay, *, undo_window_s: int) -> None:
        """Update the subscription after the move was stored.

        If `undo_window_s` is 0, the cursor stops recording acks for an undo.
        """
        inside = self.change.inside(self.subscription.cursor)
        if inside is not None:
            self.subscription.act_passed(*inside)
        if undo_window_s:
            until_ms = self.context.clock.now_ms() + 1000 * undo_window_s
            self.subscription.record_for_undo(act_id, until_ms, recorded)
        else:
            self.subscription.cursor.stop_undo_overlay()

    def _acked_meanwhile(self) -> int:
        # The cursor does not count an ack of a message that an earlier act skipped. After such an ack, an undo of that
        # act replays one message fewer than planned. So add the number of messages that it no longer replays.
        counted_by_cursor = self.move.acked_before - int(self.planned["current"]["acked_messages"])
        if self.forgets_acks:
            return counted_by_cursor
        return counted_by_cursor + max(0, int(self.planned["replayed_messages"]) - self.move.replayed)


def replay_complaint(replayed: int, planned: int, allowed: int) -> str:
    """Return a complaint if too many messages would be delivered again, or else an empty string."""
    if replayed <= planned + allowed:
        return ""
    return more_than_planned(
        replayed, planned, allowed, "message would be delivered again", "messages would be delivered again"
    )


def joint_complaint(parts: Sequence[Part], moves: Sequence[ReadyMove], whole: Mapping[str, Any]) -> str:
    """Return why the plan of several partitions is refused, or an empty string.

    The limit on replayed messages applies to the sum over all partitions.
    """
    for part, move in zip(parts, moves, strict=True):
        if complaint := move.hard_complaint():
            return f"partition {part.partition}: {complaint}"
    replayed = sum(move.move.replayed for move in moves)
    complaint = replay_complaint(replayed, whole["replayed_messages"], whole["allowed_drift_messages"])
    if not complaint:
        return ""
    grown = max(zip(moves, parts, strict=True), key=lambda pair: _growth(pair[0]))[1]
    return f"{complaint}; partition {grown.partition} has grown most"


def _growth(move: ReadyMove) -> int:
    return move.move.replayed - int(move.planned["replayed_messages"])


async def apply_together(
    act_id: int,
    parts: Sequence[Part],
    moves: Sequence[ReadyMove],
    *,
    undo_window_s: int,
    closes_consumers: bool,
) -> None:
    """Move all cursors and store the results of all partitions. Raises the errors of `commit_together`."""
    for move in moves:
        move.begin(act_id, closes_consumers=closes_consumers)
    moved = await commit_together(
        [
            MovePart(
                moves=move.subscription.moves,
                change=move.run,
                begins_at=move.change.begins_at,
                record=_Recording(part, move),
            )
            for part, move in zip(parts, moves, strict=True)
        ],
        act_id=act_id,
        undo_window_s=undo_window_s,
        result=lambda: merged_result(
            [part_json(part, move.result()) for part, move in zip(parts, moves, strict=True)]
        ),
    )
    for move, part_moved in zip(moves, moved, strict=True):
        move.stored(part_moved.act_id, part_moved.recorded, undo_window_s=undo_window_s)


@dataclass(frozen=True, slots=True)
class _Recording:
    part: Part
    move: ReadyMove

    def __call__(self) -> RecordedPart:
        act = self.part.context.act
        return RecordedPart(
            topic=act.topic_name,
            plan=json.dumps(dict(self.move.planned)),
            result=json.dumps(self.move.result()),
            cursor_version=act.cursor_version,
            undo_of=act.undo_of,
        )
