"""Pause and resume subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import psycopg

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import AlreadySo, NoParameters, NothingToActOn
from broker.core.counted import counted
from broker.core.errors import TopicFenced
from broker.storage.cursors import cursors as cursor_store

if TYPE_CHECKING:
    from broker.storage.connection import Connection
    from broker.subscription.subscription import Subscription

__all__ = ["Pause", "Resume"]


class _Switch(DirectKind[NoParameters]):
    pauses: ClassVar[bool]
    takes_partitions = True
    leaves_out = (AlreadySo, NothingToActOn)
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        subscription = await context.subscription()
        # Apply the act even if there is nothing to change, because an earlier attempt may have made the change.
        if subscription.is_paused is self.pauses and not context.act.is_apply:
            raise AlreadySo(
                f"{subscription.name} is already paused"
                if self.pauses
                else f"{subscription.name} is not paused: there is nothing to resume"
            )
        kept = len(subscription.consumers)
        if self.pauses:
            words = "nothing more is delivered until it is resumed; consumers stay connected and can ack"
        else:
            left = counted(subscription.cursor.backlog_messages, "message is", "messages are")
            words = f"delivery starts again; {left} not acked yet"
        return Effect(words=(words,), consumers_kept=kept)

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        topic, subscription = await context.topic(), await context.subscription()
        was_paused = subscription.is_paused
        if self.pauses:
            subscription.pause()  # Stop delivery before the pause is stored
        try:
            stored = await topic.write(
                lambda connection, epoch: _stored(connection, subscription, epoch, self.pauses),
                what="pausing a subscription",
            )
        except psycopg.Error:  # PostgreSQL refused the write
            if self.pauses and not was_paused:
                subscription.resume()
            raise
        if not stored:
            raise TopicFenced(f"{topic.name} moved to another broker; plan again")
        if not self.pauses:
            subscription.resume()
        context.reports.subscription_changed(subscription)


class Pause(_Switch):
    """Stop delivery."""

    name = "pause"
    summary = "Deliver nothing until the subscription is resumed. Consumers stay connected and can ack."
    no_undo = "to undo it, resume the subscription"
    pauses = True


class Resume(_Switch):
    """Start delivery again."""

    name = "resume"
    summary = "Deliver again after a pause."
    no_undo = "to undo it, pause the subscription"
    pauses = False


async def _stored(
    connection: Connection, subscription: Subscription, owner_epoch: int, is_paused: bool
) -> bool | None:
    """Store `is_paused`. Return True, or None if another broker owns the topic."""
    done = await cursor_store.set_paused(
        connection,
        topic_id=subscription.log.topic_id,
        owner_epoch=owner_epoch,
        subscription_id=subscription.subscription_id,
        paused=is_paused,
    )
    return done or None
