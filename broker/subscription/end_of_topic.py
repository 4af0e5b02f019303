"""Telling consumers that a terminated topic has nothing more for them (semantics 3.10, I23)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["tell_end_of_topic"]


def tell_end_of_topic(subscription: Subscription) -> None:
    """Tell every consumer once, when the topic is terminated and everything is acked: not when all is delivered.

    Called when a read finds no more, after an ack, after a move of the cursor, and when the topic is terminated.
    A consumer that has granted no permits yet is told at its first read: its client may not know that it is attached.
    """
    if not subscription.topic.is_terminated or subscription.cursor.backlog_messages:
        return
    for consumer in list(subscription.consumers.values()):
        if consumer.last_flow_ms and not consumer.was_told_end:
            consumer.reached_end()
