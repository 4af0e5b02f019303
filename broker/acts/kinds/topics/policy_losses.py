"""Estimate how many messages a policy change will soon trim, expire or evict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.acts.kinds.cursors.change import preview, with_index
from broker.core.backlog_quota import eviction_target, kept_of
from broker.core.counted import counted
from broker.core.ledgers.retention import Retention
from broker.core.policies import BacklogQuotaPolicy, Policies
from broker.subscription.expiry import expire_target

if TYPE_CHECKING:
    from broker.core.cursor.cursor import Cursor
    from broker.core.position import Position
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic
    from broker.topics.trimming import Trimmer

__all__ = ["PolicyLosses", "losses"]

_SLICE = 200  # Topics per turn of the event loop
MOST_COUNTED = 50  # Maximum number of subscriptions whose lost messages are counted


@dataclass(slots=True, kw_only=True)
class PolicyLosses:
    """The estimated effects of a policy change."""

    freed_messages: int = 0  # Acked messages that the broker would trim because of the change
    freed_bytes: int = 0
    lost_messages: int = 0  # Unacked messages that would expire or be evicted, summed over the subscriptions
    losing_subscriptions: int = 0
    stopped_topics: list[str] = field(default_factory=list)  # Topics where the new quota stops producers
    is_complete: bool = True  # False if more than MOST_COUNTED subscriptions lose messages

    def notes(self) -> list[str]:
        """Return the effects as sentences."""
        notes = []
        least = "" if self.is_complete else "at least "
        if self.freed_bytes:
            freed = counted(
                self.freed_messages,
                "message that every subscription has acked is",
                "messages that every subscription has acked are",
            )
            notes.append(
                f"soon after the change, {least}{freed} freed: {counted(self.freed_bytes, 'byte', 'bytes')}"
            )
        if self.lost_messages:
            subscriptions = counted(
                self.losing_subscriptions, "subscription soon loses", "subscriptions soon lose"
            )
            lost = counted(self.lost_messages, "unacknowledged message", "unacknowledged messages")
            notes.append(f"{least}{subscriptions} {least}{lost}, permanently")
        if self.stopped_topics:
            stopped = counted(
                len(self.stopped_topics),
                "topic exceeds the new quota, so the broker stops its producers",
                "topics exceed the new quota, so the broker stops their producers",
            )
            notes.append(f"{least}{stopped}: {', '.join(self.stopped_topics[:5])}")
        return notes


async def losses(
    trimmer: Trimmer, topics: Sequence[Topic], after: Mapping[str, Policies], now_ms: int
) -> PolicyLosses:
    """Return what the topics would lose under new policies."""
    found = PolicyLosses()
    for number, topic in enumerate(topics, start=1):
        if number % _SLICE == 0:
            await asyncio.sleep(0)  # Let the broker serve clients
        if (policies := after.get(topic.name.full)) is None:
            continue
        _add_freed(found, trimmer, topic, policies)
        async for subscription, target in _targets(found, topic, policies, now_ms):
            if found.losing_subscriptions >= MOST_COUNTED:
                found.is_complete = False
                return found
            found.losing_subscriptions += 1
            found.lost_messages += await _lost(subscription, target)
    return found


def _add_freed(found: PolicyLosses, trimmer: Trimmer, topic: Topic, policies: Policies) -> None:
    old, new = _retention(topic.policies), _retention(policies)
    if old == new:
        return
    now, then = trimmer.trimmable(topic, old), trimmer.trimmable(topic, new)
    found.freed_messages += max(then.messages - now.messages, 0)
    found.freed_bytes += max(then.size_bytes - now.size_bytes, 0)


def _retention(policies: Policies) -> Retention:
    return Retention(time_ms=policies.retention_ms, size_bytes=policies.retention_bytes)


async def _targets(
    found: PolicyLosses, topic: Topic, policies: Policies, now_ms: int
) -> AsyncIterator[tuple[Subscription, Position]]:
    """Yield each subscription that loses messages, and the position of its last lost message."""
    before = topic.policies
    expires = policies.message_ttl_ms not in (0, before.message_ttl_ms)
    has_new_quota = _quota(policies) != _quota(before)
    evicts = policies.backlog_quota_policy is BacklogQuotaPolicy.CONSUMER_BACKLOG_EVICTION
    for subscription in list(topic.subscriptions.values()):
        if not subscription.is_durable or not (expires or has_new_quota):
            continue
        targets = []
        if expires:
            targets.append(await expire_target(subscription, now_ms - policies.message_ttl_ms))
        if has_new_quota and await _exceeds(subscription, policies, now_ms):
            if evicts:
                targets.append(await _evicted_to(subscription, policies, now_ms))
            elif topic.name.full not in found.stopped_topics:
                found.stopped_topics.append(topic.name.full)
        target = max((each for each in targets if each is not None), default=None)
        if target is not None and target > subscription.cursor.mark_delete:
            yield subscription, target


def _quota(policies: Policies) -> tuple[object, ...]:
    return policies.backlog_quota_bytes, policies.backlog_quota_ms, policies.backlog_quota_policy


async def _exceeds(subscription: Subscription, policies: Policies, now_ms: int) -> bool:
    if 0 <= policies.backlog_quota_bytes < subscription.cursor.backlog_bytes:
        return True
    if policies.backlog_quota_ms < 0:
        return False
    return await expire_target(subscription, now_ms - policies.backlog_quota_ms) is not None


async def _evicted_to(subscription: Subscription, policies: Policies, now_ms: int) -> Position | None:
    cursor, log = subscription.cursor, subscription.log
    if 0 <= policies.backlog_quota_bytes < cursor.backlog_bytes:
        leave_bytes = kept_of(policies.backlog_quota_bytes)
        return await with_index(
            subscription.reader,
            lambda: eviction_target(cursor, log.ledgers, log.index, leave_bytes=leave_bytes),
        )
    return await expire_target(subscription, now_ms - kept_of(policies.backlog_quota_ms))


async def _lost(subscription: Subscription, target: Position) -> int:
    def move(cursor: Cursor) -> None:
        cursor.move_mark_delete(target)

    return (await with_index(subscription.reader, lambda: preview(subscription, move))).skipped
