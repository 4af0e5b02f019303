"""The order in which the broker must deliver, by subscription type.

A client asks its subscription's order about each delivery before it records the delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from tests.concurrency.random_client import CheckingConsumer, SubscriptionModel

__all__ = ["Order", "order_of"]


class Order(Protocol):
    """The order that one subscription must keep, across restarts of the broker."""

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Return what is wrong with this delivery, or "" if nothing is wrong."""

    def begins_again(self, consumer: CheckingConsumer) -> None:
        """Forget the consumer's last delivery: the next one need not follow it."""


class NoOrder:
    """The order of Shared, where any order is right."""

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Return no complaint: any order is right."""
        return ""

    def begins_again(self, consumer: CheckingConsumer) -> None:
        """Do nothing: any order is right."""


class LogOrder:
    """The order of Exclusive and Failover: the log's order, beginning with the first unacked entry.

    With Failover, only the active consumer may get messages.
    """

    def __init__(self, model: SubscriptionModel) -> None:
        self._model = model
        self._last: dict[CheckingConsumer, Position] = {}

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Complain if a delivery is out of order, skips an unacked entry, or goes to a consumer that is not active."""
        if self._model.type is SubscriptionType.FAILOVER:
            told = [each for each in self._model.consumers if each.active and each.active[-1]]
            if told not in ([], [consumer]) or not consumer.active or not consumer.active[-1]:
                return "the consumer is not the only one that was told it is active"
        last = self._last.get(consumer)
        self._last[consumer] = position
        passed: Iterable[Position]
        if last is None:
            passed = [each for each in self._model.seen if each < position]
        elif position <= last:
            return f"after {last}, out of order"
        elif position.ledger_id == last.ledger_id:
            passed = [Position(last.ledger_id, each) for each in range(last.entry_id + 1, position.entry_id)]
        else:
            passed = [each for each in self._model.seen if last < each < position]
        unacked = [each for each in passed if each not in self._model.done and each not in self._model.hoped]
        return f"it passes over {min(unacked)}" if unacked else ""

    def begins_again(self, consumer: CheckingConsumer) -> None:
        """Forget the last delivery. The consumer asked for redelivery, or became active."""
        self._last.pop(consumer, None)


class KeyOrder:
    """The order of Key_Shared: one consumer at a time holds a key's messages, and gets them in the log's order.

    No message overtakes an earlier one of its key that will be delivered again. Delayed messages do not count, because
    other messages of their key may overtake them.
    """

    def __init__(self, model: SubscriptionModel) -> None:
        self._model = model
        self._of_key: dict[int, list[Position]] = {}  # delivered so far, in the order of first deliveries

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Complain if another consumer holds the key, or if an earlier message of the key must come first."""
        key, model = entry.key_hash, self._model
        if not key:
            return ""
        for other in model.consumers:
            if other is not consumer and not other.is_gone and _holds_key(other, key):
                return f"key {key} is at another consumer"
        if entry.deliver_at_ms:
            return ""
        known = self._of_key.setdefault(key, [])
        if position not in model.seen:
            if known and position < known[-1]:
                return f"its first delivery is after that of {known[-1]}, of the same key"
            known.append(position)
        waiting = [
            each
            for each in _not_done(known, model)
            if each < position and each not in consumer.held and each not in model.hoped
        ]
        return f"it overtakes {waiting[0]} of its key" if waiting else ""

    def begins_again(self, consumer: CheckingConsumer) -> None:
        """Do nothing: the order belongs to the keys, and not to a consumer."""


def order_of(model: SubscriptionModel) -> Order:
    """Return the order of the subscription's type."""
    if model.type is SubscriptionType.SHARED:
        return NoOrder()
    return KeyOrder(model) if model.type is SubscriptionType.KEY_SHARED else LogOrder(model)


def _holds_key(consumer: CheckingConsumer, key: int) -> bool:
    return any(delivery.entry.key_hash == key for delivery in consumer.held.values())


def _not_done(positions: Sequence[Position], model: SubscriptionModel) -> list[Position]:
    return [each for each in positions if each not in model.done]
