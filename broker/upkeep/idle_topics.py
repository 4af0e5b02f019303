"""Decide which topics leave memory because nobody uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["may_leave"]


def may_leave(topic: Topic, *, now_ms: int, idle_ms: int) -> bool:
    """Return whether a topic has been idle for `idle_ms` and can leave memory without loss.

    A topic with a backlog stays, because /metrics shows only topics in memory.
    """
    if topic.producers or any(each.consumers or not each.is_durable for each in topic.subscriptions.values()):
        topic.asked_ms = now_ms
        return False
    if now_ms - max(topic.asked_ms, topic.last_append_ms) < idle_ms:
        return False
    return (
        topic.is_open
        and not _has_work(topic.log)
        and not topic.subscriptions.creating.locked()
        and not topic.compacted.is_running
        and not len(topic.delayed)  # Rows of delayed messages are pruned only while the topic is in memory
        and all(_is_at_rest(each) for each in topic.subscriptions.values())
    )


def _has_work(log: TopicLog) -> bool:
    return bool(log.queue or log.in_flight or log.trimmed_through or log.is_queued or log.is_taken)


def _is_at_rest(subscription: Subscription) -> bool:
    return (
        subscription.is_stored
        and not subscription.undo_until_ms
        and not subscription.moves.is_busy
        and not len(subscription.deadlines)
        and not subscription.cursor.backlog_messages
    )
