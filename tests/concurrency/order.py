"""What order a subscription's clients may hold the broker to.

Each is asked about a delivery before the client takes note of it, and answers with what is wrong, "" for nothing.
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
    """One subscription's, over all lives of the broker."""

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Return what is wrong with this delivery."""

    def begins_again(self, consumer: CheckingConsumer) -> None:
        """Forget the consumer's last delivery: the next one need not follow it."""


class NoOrder:
    """Shared."""

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Any order will do."""
        return ""

    def begins_again(self, consumer: CheckingConsumer) -> None:
        """It never went on."""


class LogOrder:
    """Exclusive and Failover: the log's, from the first unacked entry on, and on Failover to the active one alone."""

    def __init__(self, model: SubscriptionModel) -> None:
        self._model = model
        self._last: dict[CheckingConsumer, Position] = {}

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Out of order, passed over, or not the active one's."""
        if self._model.type is SubscriptionType.FAILOVER:
            told = [each for each in self._model.consumers if each.active and each.active[-1]]
            if told not in ([], [consumer]) or not consumer.active or not consumer.active[-1]:
                return "it is not the only one that was told that it is active"
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
        """A rewind: asked for, or by a switch."""
        self._last.pop(consumer, None)


class KeyOrder:
    """Key_Shared: a key is at one consumer, its first deliveries ascend, and nothing overtakes what comes again.

    What has a delivery time is left out: it is passed by its key.
    """

    def __init__(self, model: SubscriptionModel) -> None:
        self._model = model
        self._of_key: dict[int, list[Position]] = {}  # delivered so far, in the order of first deliveries

    def complaint(self, consumer: CheckingConsumer, entry: StoredEntry, position: Position) -> str:
        """Its key is elsewhere, or something of it has to come before."""
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
        """Order is the subscription's, not a consumer's."""


def order_of(model: SubscriptionModel) -> Order:
    """By the subscription's type."""
    if model.type is SubscriptionType.SHARED:
        return NoOrder()
    return KeyOrder(model) if model.type is SubscriptionType.KEY_SHARED else LogOrder(model)


def _holds_key(consumer: CheckingConsumer, key: int) -> bool:
    return any(delivery.entry.key_hash == key for delivery in consumer.held.values())


def _not_done(positions: Sequence[Position], model: SubscriptionModel) -> list[Position]:
    return [each for each in positions if each not in model.done]
