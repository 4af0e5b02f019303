"""Undo an act on a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.change import Change
from broker.acts.kinds.cursors.cursor_kind import CursorKind
from broker.acts.kinds.parameters import ActInvalid, NoParameters
from broker.core.position import Position
from broker.storage.acts import acts as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["Undo"]


class Undo(CursorKind[NoParameters]):
    """Undo the latest act on a cursor."""

    name = "undo"
    summary = "Undo the latest act on a cursor. Messages acked since then stay acked."
    closes_consumers = True
    leaves_out = ()  # An undo covers all partitions or none
    can_be_requested = False  # Call `plan_undo` instead
    parameters = NoParameters

    async def find(self, context: ActContext, subscription: Subscription, given: NoParameters) -> Change:
        undo_of = context.act.undo_of
        if undo_of is None:
            raise ActInvalid("an undo must name the act to undo")
        source = await repeat_until_done(
            context.pool, lambda c: store.undo_source(c, undo_of), what="reading the act to undo"
        )
        latest = await repeat_until_done(
            context.pool,
            lambda c: store.latest_move(c, subscription.subscription_id),
            what="finding the latest act",
        )
        if source is None or source.state != "applied" or source.before is None:
            raise ActInvalid(f"act {undo_of} did not move a cursor, so there is nothing to undo")
        if source.subscription_id != subscription.subscription_id:
            raise ActInvalid(
                f"the subscription that act {undo_of} moved was deleted, so there is nothing to undo"
            )
        if latest != undo_of:
            raise ActInvalid(f"only the latest act on a cursor can be undone, and that is act {latest}")
        if not source.is_open:
            raise ActInvalid(f"the time to undo act {undo_of} is over")
        before = source.before
        after = Position.parse(str(source.result["after"]))
        overlay = subscription.cursor.undo_overlay() or source.acked_since
        letter_topic = source.result.get("letter_topic")
        notes = (f"the letter in {letter_topic} stays there",) if letter_topic else ()
        return Change(run=lambda cursor: cursor.undo(before, after, overlay), notes=notes)
