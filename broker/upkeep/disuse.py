"""Removing what nobody uses: expired subscriptions, inactive topics (semantics 2.5, 4). Both are off by default."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError
from broker.core.policies import InactiveTopicMode
from broker.core.subscription.expiry import Use, is_expired, is_inactive
from broker.core.topic_name import TopicName
from broker.storage.acts import acts as act_store
from broker.storage.cursors import cursors as cursor_store
from broker.storage.pool import repeat_until_done
from broker.storage.topics import disuse as store
from broker.storage.topics import life as topic_life
from broker.topics.ending import TopicBusy, delete, unload
from broker.topics.policies_in_force import default_policies

if TYPE_CHECKING:
    from broker.process.broker import Broker
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["delete_if_inactive", "expire_subscriptions", "visit_idle_topics"]

log = logging.getLogger(__name__)

_IDLE_AT_ONCE = 50  # topics loaded to be looked at, a round


def _use(subscription: Subscription) -> Use:
    return Use(
        consumers=len(subscription.consumers),
        last_used_ms=subscription.last_used_ms,
        backlog_messages=subscription.cursor.backlog_messages,
    )


async def expire_subscriptions(topic: Topic) -> int:
    """Remove the durable subscriptions whose time is over, in the act log's sight; how many."""
    if not topic.policies.subscription_expiry_ms:
        return 0
    now_ms = topic.services.clock.now_ms()
    expired = [
        each
        for each in list(topic.subscriptions.values())
        if each.is_durable and is_expired(_use(each), topic.policies, now_ms)
    ]
    for each in expired:
        await _remove(topic, each)
    return len(expired)


async def _remove(topic: Topic, subscription: Subscription) -> None:
    services = topic.services
    async with subscription.moves.moving(closes_consumers=True):
        if subscription.consumers or subscription.is_deleted:
            return  # somebody came while another move was under way
        backlog = subscription.cursor.backlog_messages
        act_id = await repeat_until_done(
            services.pool,
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
        async with services.flusher.paused():
            subscription.is_deleted = True
            deleted = await services.epochs.write(
                topic.log,
                lambda connection, epoch: cursor_store.delete_subscription(
                    connection,
                    topic_id=topic.topic_id,
                    subscription_id=subscription.subscription_id,
                    owner_epoch=epoch,
                ),
                what="removing a subscription",
            )
        if act_id is not None:
            await repeat_until_done(
                services.pool,
                lambda c: act_store.finish(
                    c,
                    act_id=act_id,
                    state="applied" if deleted else "failed",
                    result=json.dumps({"skipped_messages": backlog}),
                    error="" if deleted else "the topic moved to another broker",
                ),
                what="writing an act's result",
            )
        topic.forget_subscription(subscription)
        log.warning(
            "%s: subscription %s expired, unused for more than %s ms; it had a backlog of %s messages",
            topic.name,
            subscription.name,
            topic.policies.subscription_expiry_ms,
            backlog,
        )


def _is_inactive(topic: Topic) -> bool:
    return is_inactive(
        [_use(each) for each in topic.subscriptions.values()],
        topic.policies,
        producers=len(topic.producers),
        last_used_ms=max(topic.last_used_ms, topic.last_append_ms),
        now_ms=topic.services.clock.now_ms(),
    )


async def delete_if_inactive(broker: Broker, topic: Topic) -> bool:
    """Delete a topic that nobody uses; a partitioned one goes whole, when no partition is in use."""
    if not _is_inactive(topic):
        return False
    name = TopicName.parse(topic.name.base)
    pool = broker.services.pool
    members = await repeat_until_done(
        pool, lambda c: topic_life.members(c, name.full), what="finding partitions"
    )
    if topic.name.full not in members.values():
        name, members = topic.name, {topic.topic_id: topic.name.full}
    for each in members.values():
        if not _is_inactive(await broker.topic(TopicName.parse(each), create=False)):
            return False
    with_subscriptions = topic.policies.inactive_topic_mode is InactiveTopicMode.SUBSCRIPTIONS_CAUGHT_UP
    try:
        await delete(broker, name, force=False, with_subscriptions=with_subscriptions)
    except TopicBusy:
        return False  # somebody came in this moment
    log.warning("%s is deleted: nobody used it for more than %s ms", name, topic.policies.inactive_topic_ms)
    return True


async def visit_idle_topics(broker: Broker, after: int) -> int:
    """Look at topics that are not in memory and have something to expire, a part of them, by id from above `after`.

    Returns where to go on, 0 = from the beginning.
    """
    services = broker.services
    known = [topic.topic_id for topic in broker.topics.values()]
    found = await repeat_until_done(
        services.pool,
        lambda c: store.idle_topics(
            c,
            after=after,
            known=known,
            now_ms=services.clock.now_ms(),
            defaults=default_policies(broker.settings),
            limit=_IDLE_AT_ONCE,
        ),
        what="looking for unused topics",
    )
    for _, each in found:
        try:
            name = TopicName.parse(each)
            topic = await broker.topic(name, create=False)
            await expire_subscriptions(topic)
            if not await delete_if_inactive(broker, topic) and not _is_used(topic):
                await unload(broker, [name])
        except BrokerError as error:
            log.info("%s was not looked at: %s", each, error)
    return found[-1][0] if len(found) == _IDLE_AT_ONCE else 0


def _is_used(topic: Topic) -> bool:
    return bool(topic.producers) or any(each.consumers for each in topic.subscriptions.values())
