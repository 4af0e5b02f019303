"""A topic's backlog quota."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from broker.core.backlog_quota import Backlog, Breach, QuotaKind, breach_of, eviction_target, kept_of
from broker.core.errors import BrokerError, QuotaExceeded, QuotaHold
from broker.core.policies import BacklogQuotaPolicy
from broker.core.position import Position
from broker.storage.acts import acts as act_store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.log.reader import TopicReader
    from broker.log.topic_log import TopicLog
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription

__all__ = ["BacklogQuota", "QuotaTopic"]

logger = logging.getLogger(__name__)


class QuotaTopic(Protocol):
    """The members of a topic that its quota uses."""

    @property
    def name(self) -> TopicName: ...
    @property
    def topic_id(self) -> int: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def log(self) -> TopicLog: ...
    @property
    def reader(self) -> TopicReader: ...
    @property
    def subscriptions(self) -> Mapping[str, Subscription]: ...
    def close_producers(self, error: BrokerError | None) -> None: ...


class BacklogQuota:
    """One topic's quota. `breach` is the reason why producers are stopped; None means producers are not stopped."""

    def __init__(self, topic: QuotaTopic, pool: ConnectionPool, clock: Clock) -> None:
        self._topic = topic
        self._pool = pool
        self._clock = clock
        self.breach: Breach | None = None
        # The topic may have been over quota before it was loaded, so the first producer triggers a check.
        self._was_checked = False
        self.evictions: dict[QuotaKind, int] = dict.fromkeys(QuotaKind, 0)
        # The position and append time of each subscription's oldest unacked entry.
        self._oldest: dict[str, tuple[Position, int]] = {}

    @property
    def is_set(self) -> bool:
        """Whether the policies set a quota."""
        policies = self._topic.policies
        return policies.backlog_quota_bytes >= 0 or policies.backlog_quota_ms >= 0

    async def require_room(self) -> None:
        """Check that a new producer may attach. Raises QuotaHold, QuotaExceeded, and the errors of `check`."""
        if self.breach is not None or (self.is_set and not self._was_checked):
            await self.check()
        if self.breach is not None:
            raise self._error(self.breach)

    async def check(self) -> None:
        """Check the quota, and react to a breach. Safe to repeat. Raises BrokerError, psycopg.Error."""
        self._was_checked = True
        if not self.is_set:
            self._oldest.clear()
            self._unblock()
            return
        breach = await self._find()
        topic = self._topic
        if breach is None:
            self._unblock()
        elif topic.policies.backlog_quota_policy is BacklogQuotaPolicy.CONSUMER_BACKLOG_EVICTION:
            self._unblock()
            while breach is not None and await self._evict(breach):
                breach = await self._find()
        else:
            if self.breach is None:
                logger.warning(
                    "%s takes no more messages: %s", topic.name, breach, extra={"topic": str(topic.name)}
                )
            self.breach = breach
            topic.close_producers(self._error(breach))

    def _unblock(self) -> None:
        if self.breach is not None:
            self.breach = None
            name = self._topic.name
            logger.warning(
                "%s takes messages again: its backlog quota allows them", name, extra={"topic": str(name)}
            )

    def _error(self, breach: Breach) -> BrokerError:
        waits = self._topic.policies.backlog_quota_policy is BacklogQuotaPolicy.PRODUCER_REQUEST_HOLD
        return (QuotaHold if waits else QuotaExceeded)(f"{self._topic.name} takes no messages: {breach}")

    async def _find(self) -> Breach | None:
        policies = self._topic.policies
        backlogs = [
            Backlog(subscription=each.name, size_bytes=each.cursor.backlog_bytes, age_ms=0)
            for each in self._durable()
        ]
        breach = breach_of(backlogs, quota_bytes=policies.backlog_quota_bytes, quota_ms=-1)
        if breach is not None or policies.backlog_quota_ms < 0:
            return breach
        ages = {each.name: await self._age_ms(each) for each in self._durable()}
        self._oldest = {name: known for name, known in self._oldest.items() if name in ages}
        aged = [replace(each, age_ms=ages.get(each.subscription, 0)) for each in backlogs]
        return breach_of(aged, quota_bytes=-1, quota_ms=policies.backlog_quota_ms)

    def _durable(self) -> list[Subscription]:
        return [each for each in self._topic.subscriptions.values() if each.is_durable]

    async def _age_ms(self, subscription: Subscription) -> int:
        """Return the age of the oldest unacked entry.

        If the entry's ledger is not older than the quota allows, return the age of the ledger.
        """
        topic = self._topic
        position = subscription.cursor.read_from()
        ledger = topic.log.ledgers.get(position.ledger_id)
        if ledger is None or not topic.log.ledgers.contains(position):
            return 0
        now_ms = self._clock.now_ms()
        if now_ms - ledger.first_append_ms <= topic.policies.backlog_quota_ms:
            return now_ms - ledger.first_append_ms
        known = self._oldest.get(subscription.name)
        if known is None or known[0] != position:
            appended_ms = await topic.reader.append_ms(position)
            if appended_ms is None:
                return 0  # The entry has been trimmed
            known = self._oldest[subscription.name] = (position, appended_ms)
        return now_ms - known[1]

    async def _evict(self, breach: Breach) -> bool:
        """Skip messages, or return False if there is nothing to skip."""
        topic = self._topic
        subscription = topic.subscriptions.get(breach.subscription)
        if subscription is None:
            return False
        async with subscription.moves.moving(closes_consumers=False):
            target = await self._target(subscription, breach)
            before, skipped = subscription.cursor.mark_delete, 0
            if target <= before or subscription.is_deleted:
                return False
            act_id = await self._record(subscription, breach)

            def move() -> None:
                nonlocal skipped
                backlog = subscription.cursor.backlog_messages
                subscription.cursor.move_mark_delete(target)
                skipped = backlog - subscription.cursor.backlog_messages

            try:
                await subscription.moves.commit(
                    move,
                    act_id=act_id,
                    undo_window_s=0,
                    result=lambda: {
                        "before": str(before),
                        "after": str(subscription.cursor.mark_delete),
                        "skipped_messages": skipped,
                        "backlog_messages": subscription.cursor.backlog_messages,
                    },
                )
            except BrokerError as error:
                await self._record_failure(act_id, str(error))
                raise
            except Exception:
                await self._record_failure(
                    act_id, "the eviction failed inside the broker; the broker's log says why"
                )
                raise
        self.evictions[breach.kind] += 1
        logger.warning(
            "%s: %s; subscription %s gave up %s messages",
            topic.name,
            breach,
            subscription.name,
            skipped,
            extra={"topic": str(topic.name), "subscription": subscription.name},
        )
        return True

    async def _target(self, subscription: Subscription, breach: Breach) -> Position:
        topic = self._topic
        ledgers = topic.log.ledgers
        if breach.kind is QuotaKind.AGE:
            oldest_kept_ms = self._clock.now_ms() - kept_of(breach.limit)
            return ledgers.previous_of(await topic.reader.position_at_time(oldest_kept_ms))
        found: list[Position] = []
        await subscription.moves.with_index(
            lambda: found.append(
                eviction_target(
                    subscription.cursor, ledgers, topic.log.index, leave_bytes=kept_of(breach.limit)
                )
            )
        )
        return found[-1]

    async def _record(self, subscription: Subscription, breach: Breach) -> int:
        topic = self._topic
        return await repeat_until_done(
            self._pool,
            lambda c: act_store.record_client_act(
                c,
                kind="evict",
                topic_id=topic.topic_id,
                subscription_id=subscription.subscription_id,
                topic_name=topic.name.full,
                subscription_name=subscription.name,
                parameters=json.dumps({"quota": breach.kind, "is_now": breach.is_now, "limit": breach.limit}),
                who="backlog quota",
                origin="broker",
                cursor_version=subscription.cursor.version,
            ),
            what="writing an act",
        )

    async def _record_failure(self, act_id: int, error: str) -> None:
        await repeat_until_done(
            self._pool,
            lambda c: act_store.finish(c, act_id=act_id, state="failed", error=error),
            what="writing an act's result",
        )
