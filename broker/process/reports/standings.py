"""Judge whether the durable subscriptions in memory are stuck, idle, or in another state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.core.subscription.flow_window import Sample
from broker.core.subscription.standing import Standing, SubscriptionState, Verdict

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Standings"]

logger = logging.getLogger(__name__)

_FORGET_EVERY: Final = 60  # Counted in calls of `look`
_SLICE: Final = 200  # After this many subscriptions, other tasks may run
_NO_DUE_TIME_MS: Final = 10_000
_UNATTENDED_MS: Final = 5_000  # Longest delay until a subscription without consumers is judged


class Standings:
    """The states of the subscriptions in memory."""

    def __init__(self) -> None:
        # None means that the subscription has long been idle.
        self._known: dict[Subscription, Standing | None] = {}
        self._look_at_ms: dict[Subscription, int] = {}
        self._looks = 0
        self._looked_ms = 0

    async def look(
        self, topics: Iterable[Topic], subscriptions: Iterable[Subscription], now_ms: int
    ) -> set[Subscription]:
        """Judge subscriptions. Return those whose state has changed, and those judged for the first time."""
        if now_ms < self._looked_ms:  # The clock was set back, so the planned times may be hours away
            self._look_at_ms = dict.fromkeys(self._look_at_ms, now_ms)
        self._looked_ms = now_ms
        self._looks += 1
        if self._looks % _FORGET_EVERY == 0:
            await self._forget()
        seen = set(subscriptions)
        number = 0
        for topic in topics:
            for each in list(topic.subscriptions.values()):
                if self._is_attended(each, now_ms):
                    seen.add(each)
                number += 1
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
        seen.update(each for each, at_ms in self._look_at_ms.items() if at_ms <= now_ms)
        news = set()
        for number, each in enumerate(seen, start=1):
            if self._looks_new(each, now_ms):
                news.add(each)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return news

    def verdict(self, subscription: Subscription, now_ms: int) -> Verdict:
        """Return the latest verdict."""
        standing = self._known.get(subscription)
        return Verdict(self.state(subscription), now_ms, None) if standing is None else standing.verdict

    def state(self, subscription: Subscription) -> SubscriptionState:
        """Return the latest state."""
        standing = self._known.get(subscription)
        if standing is not None:
            return standing.state
        return SubscriptionState.IDLE if subscription in self._known else SubscriptionState.WATCHING

    def worst(self, topic: Topic) -> SubscriptionState | None:
        """Return the worst state of a topic's durable subscriptions."""
        return min(
            (self.state(each) for each in topic.subscriptions.values() if each.is_durable), default=None
        )

    def _is_attended(self, subscription: Subscription, now_ms: int) -> bool:
        if subscription.consumers or subscription not in self._known:
            return True
        soon_ms = now_ms + _UNATTENDED_MS
        if self._look_at_ms.get(subscription, soon_ms + 1) > soon_ms:
            self._look_at_ms[subscription] = soon_ms
        return False

    def _looks_new(self, subscription: Subscription, now_ms: int) -> bool:
        try:
            return self._is_news(subscription, now_ms)
        except Exception:
            logger.exception(
                "subscription %s of %s was not judged", subscription.name, subscription.topic_name
            )
            return False

    def _is_news(self, subscription: Subscription, now_ms: int) -> bool:
        if not subscription.is_durable or _is_gone(subscription):
            self._look_at_ms.pop(subscription, None)
            return False
        sample = _sample(subscription, now_ms)
        standing = self._known.get(subscription)
        if standing is not None:
            before = standing.state
            standing.look(sample)
        elif subscription in self._known:
            before = SubscriptionState.IDLE
            standing = Standing(sample, before)
        else:
            before = None
            standing = Standing(sample)
        is_over = standing.is_forgettable(sample)
        self._known[subscription] = None if is_over else standing
        look_at_ms = _due_ms(subscription, now_ms)
        if not is_over:
            look_at_ms = min(
                standing.look_again_ms, standing.look_again_ms if look_at_ms is None else look_at_ms
            )
        if standing.is_settled or look_at_ms is None:
            self._look_at_ms.pop(subscription, None)
        else:
            self._look_at_ms[subscription] = look_at_ms
        return standing.state is not before

    async def _forget(self) -> None:
        for number, each in enumerate(list(self._known), start=1):
            if each not in self._look_at_ms and (_is_gone(each) or not each.log.is_open):
                del self._known[each]
            if number % _SLICE == 0:
                await asyncio.sleep(0)


def _is_gone(subscription: Subscription) -> bool:
    return subscription.is_deleted or subscription.log.is_fenced


def _sample(subscription: Subscription, now_ms: int) -> Sample:
    cursor = subscription.cursor
    return Sample(
        now_ms=now_ms,
        ready_messages=subscription.log.ledgers.total_messages - subscription.delayed_entries,
        acked_messages=cursor.totals.messages - subscription.counters.messages_expired,
        waiting_messages=subscription.waiting_messages,
        cursor_version=cursor.version,
        is_paused=subscription.is_paused,
        has_consumers=bool(subscription.consumers),
    )


def _due_ms(subscription: Subscription, now_ms: int) -> int | None:
    if not subscription.delayed_entries or not subscription.log.is_open:
        return None
    due_ms = subscription.next_delayed_ms
    return now_ms + _NO_DUE_TIME_MS if due_ms is None else due_ms
