"""Failover in the owner: the wait before a switch, the switch, and who is told of it (semantics 3.2)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from broker.core.subscription.types import SubscriptionType

if TYPE_CHECKING:
    from broker.core.dispatchers.base import Dispatcher
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription

__all__ = ["ActiveConsumer", "tell_active"]

log = logging.getLogger(__name__)


class ActiveConsumer:
    """Watches one subscription's choice; nothing of it happens on other types.

    Consumers are told after the present callback, when the answer to their SUBSCRIBE has been written.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def joined(self, consumer: Consumer) -> None:
        """A consumer attached: when it changes nothing, it alone is told that it is not the active one."""
        subscription = self._subscription
        if subscription.type is not SubscriptionType.FAILOVER:
            return
        if subscription.dispatcher.due_ms is None:
            asyncio.get_running_loop().call_soon(self._tell, consumer)
        else:
            self.changed()

    def changed(self) -> None:
        """A consumer came or left: see to it that a switch takes place when it is due."""
        subscription = self._subscription
        due_ms = subscription.dispatcher.due_ms
        if due_ms is None:
            return
        services = subscription.topic.services
        services.deadlines.watch(subscription, due_ms)
        if due_ms <= services.clock.now_ms():
            asyncio.get_running_loop().call_soon(self._switch_now)

    def _switch_now(self) -> None:
        self.run_due(self._subscription.topic.services.clock.now_ms())

    def run_due(self, now_ms: int) -> None:
        """Switch if it is time: everything unacked comes again, to the new one. Running it twice does no harm."""
        subscription = self._subscription
        if not subscription.dispatcher.run_due(now_ms):
            return
        active = subscription.dispatcher.active
        if active is not None:
            log.info(
                "%s, subscription %s: %s is active", subscription.topic.name, subscription.name, active.name
            )
        subscription.rewind()
        for consumer in list(subscription.consumers.values()):
            self._tell(consumer)
        subscription.topic.services.reporter.changed(subscription)
        subscription.pump()

    def _tell(self, consumer: Consumer) -> None:
        tell_active(consumer, self._subscription.dispatcher)


def tell_active(consumer: Consumer, dispatcher: Dispatcher) -> None:
    """Tell one consumer whether it is the active one."""
    if not consumer.is_open:
        return
    try:
        consumer.sink.on_active_change(consumer.dispatch is dispatcher.active)
    except Exception:  # the others must be told too
        log.exception("consumer %s: telling it who is active", consumer.name)
