"""Remove subscriptions and topics that nobody uses."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError
from broker.core.policies import InactiveTopicMode
from broker.core.subscription.expiry import Use, is_expired, is_inactive
from broker.core.topic_name import TopicName
from broker.storage.acts import acts as act_store
from broker.storage.away import is_away
from broker.storage.pool import repeat_until_done
from broker.storage.topics import disuse as store
from broker.storage.topics import life as topic_life
from broker.topics.ending import TopicBusy

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.policies import Policies
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.ending import Endings
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["Disuse"]

logger = logging.getLogger(__name__)

_IDLE_AT_ONCE = 50


class Disuse:
    """Expires subscriptions and deletes topics as policies demand."""

    def __init__(
        self,
        topics: Topics,
        endings: Endings,
        *,
        pool: ConnectionPool,
        clock: Clock,
        defaults: Policies,
    ) -> None:
        self._topics = topics
        self._endings = endings
        self._pool = pool
        self._clock = clock
        self._defaults = defaults

    async def expire_subscriptions(self, topic: Topic) -> int:
        """Remove expired durable subscriptions, and record each removal in the audit log."""
        if not topic.policies.subscription_expiry_ms:
            return 0
        expired = [
            each
            for each in list(topic.subscriptions.values())
            if each.is_durable and self._is_expired(topic, each)
        ]
        for each in expired:
            await self._remove(topic, each)
        return len(expired)

    async def delete_if_inactive(self, topic: Topic) -> bool:
        """Delete a topic if it is inactive, and return whether it was deleted.

        The partitions of a topic are deleted together, when all of them are inactive.
        """
        if not self._is_inactive(topic):
            return False
        name = TopicName.parse(topic.name.base)
        members = await repeat_until_done(
            self._pool, lambda c: topic_life.members(c, name.full), what="finding partitions"
        )
        if topic.name.full not in members.values():
            name, members = topic.name, {topic.topic_id: topic.name.full}
        for each in members.values():
            if not self._is_inactive(await self._topics.open_named(each)):
                return False
        with_subscriptions = topic.policies.inactive_topic_mode is InactiveTopicMode.SUBSCRIPTIONS_CAUGHT_UP
        try:
            # A client may have published and left since the check. `delete` checks again while no client can connect.
            await self._endings.delete(
                name, force=False, with_subscriptions=with_subscriptions, only_if=self._is_inactive
            )
        except TopicBusy:
            return False
        logger.warning(
            "%s is deleted: nobody used it for more than %s ms", name, topic.policies.inactive_topic_ms
        )
        return True

    async def visit_idle_topics(self, after: int) -> int:
        """Check topics that are not in memory and have ids above `after`.

        Return `after` for the next call. 0 means to start again with the lowest id.
        """
        known = [topic.topic_id for topic in self._topics.all()]
        found = await repeat_until_done(
            self._pool,
            lambda c: store.idle_topics(
                c,
                after=after,
                known=known,
                now_ms=self._clock.now_ms(),
                defaults=self._defaults,
                limit=_IDLE_AT_ONCE,
            ),
            what="looking for unused topics",
        )
        for _, each in found:
            try:
                name = TopicName.parse(each)
                topic = await self._topics.open(name, create=False)
                await self.expire_subscriptions(topic)
                if not await self.delete_if_inactive(topic) and not _is_used(topic):
                    await self._endings.unload([name])
            except BrokerError as error:
                logger.info("%s was not checked for disuse; a later round tries again: %s", each, error)
            except Exception as error:
                if is_away(error):
                    raise
                logger.exception("%s was not checked for disuse; a later round tries again", each)
        return found[-1][0] if len(found) == _IDLE_AT_ONCE else 0

    async def _remove(self, topic: Topic, subscription: Subscription) -> None:
        async with subscription.moves.moving(closes_consumers=True):
            if subscription.is_deleted or not self._is_expired(topic, subscription):
                return
            backlog = subscription.cursor.backlog_messages
            act_id = await repeat_until_done(
                self._pool,
                lambda c: act_store.record_client_act(
                    c,
                    kind="expire_subscription",
                    topic_id=topic.topic_id,
                    subscription_id=subscription.subscription_id,
                    topic_name=topic.name.full,
                    subscription_name=subscription.name,
                    parameters=json.dumps({"unused_since_ms": subscription.last_used_ms}),
                    who="subscription expiry",
                    origin="broker",
                    cursor_version=subscription.cursor.version,
                ),
                what="writing an act",
            )
            try:
                await subscription.moves.delete_rows()
            except BrokerError as error:
                await self._finish(act_id, state="failed", error=str(error))
                raise
            topic.subscriptions.forget(subscription)
            await self._finish(act_id, state="applied", result=json.dumps({"skipped_messages": backlog}))
            logger.warning(
                "%s: subscription %s expired, unused for more than %s ms; it had a backlog of %s messages",
                topic.name,
                subscription.name,
                topic.policies.subscription_expiry_ms,
                backlog,
            )

    async def _finish(self, act_id: int, *, state: str, result: str | None = None, error: str = "") -> None:
        await repeat_until_done(
            self._pool,
            lambda c: act_store.finish(c, act_id=act_id, state=state, result=result, error=error),
            what="writing an act's result",
        )

    def _is_expired(self, topic: Topic, subscription: Subscription) -> bool:
        return is_expired(_use(subscription), topic.policies, self._clock.now_ms())

    def _is_inactive(self, topic: Topic) -> bool:
        return is_inactive(
            [_use(each) for each in topic.subscriptions.values()],
            topic.policies,
            producers=len(topic.producers),
            last_used_ms=max(topic.last_used_ms, topic.last_append_ms),
            now_ms=self._clock.now_ms(),
        )


def _use(subscription: Subscription) -> Use:
    return Use(
        consumers=len(subscription.consumers),
        last_used_ms=subscription.last_used_ms,
        backlog_messages=subscription.cursor.backlog_messages,
    )


def _is_used(topic: Topic) -> bool:
    return bool(topic.producers) or any(each.consumers for each in topic.subscriptions.values())
