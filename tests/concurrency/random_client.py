"""Clients that check with every delivery whether the broker keeps its promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.clock import SystemClock
from broker.core.errors import BrokerError
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import AckRequest, Delivery
from tests.concurrency.order import Order, order_of
from tests.support.broker_harness import ConsumerProbe

__all__ = ["CheckingConsumer", "SubscriptionModel"]


@dataclass(kw_only=True)
class SubscriptionModel:
    """What a subscription's clients know about it, across restarts of the broker."""

    name: str
    type: SubscriptionType
    seen: dict[Position, int] = field(default_factory=dict)  # how often the entry was delivered
    # For each partly acked entry, the set of members that are not acked with a receipt.
    left: dict[Position, int] = field(default_factory=dict)
    done: set[Position] = field(default_factory=set)  # wholly acked with a receipt
    hoped: set[Position] = field(default_factory=set)  # wholly acked, without a receipt so far
    # Like `left`, but also counts acks without a receipt.
    hoped_left: dict[Position, int] = field(default_factory=dict)
    consumers: list[CheckingConsumer] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    order: Order = field(init=False)

    def __post_init__(self) -> None:
        self.order = order_of(self)

    @property
    def has_many(self) -> bool:
        """Whether the broker may send to several consumers, each entry to one of them."""
        return not self.type.single_active

    def stored(self, position: Position, remaining: int | None) -> None:
        """Record that an ack got its receipt."""
        if remaining is None:
            self.done.add(position)
            return
        left = self.left.get(position, -1) & remaining
        self.left[position] = left
        if not left:
            self.done.add(position)


class CheckingConsumer(ConsumerProbe):
    """One connection's consumer."""

    def __init__(self, model: SubscriptionModel) -> None:
        super().__init__()
        self.model = model
        self.held: dict[Position, Delivery] = {}
        self.permits = 0
        self.is_gone = False

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take the deliveries and check each."""
        super().deliver(deliveries)
        for delivery in deliveries:
            self._check(delivery)

    def _check(self, delivery: Delivery) -> None:
        entry, model = delivery.entry, self.model
        position = Position(entry.ledger_id, entry.entry_id)
        what = f"{position} to {model.name}"
        complain = model.violations.append
        if self.is_gone:
            complain(f"{what}: delivered to a consumer that is gone")
        if self.permits <= 0:
            complain(f"{what}: sent without permits")
        members = (1 << entry.messages) - 1 if delivery.remaining is None else delivery.remaining
        self.permits -= members.bit_count()
        if model.has_many and entry.deliver_at_ms > SystemClock().now_ms():
            complain(f"{what}: sent before it was due")
        if position in model.done:
            complain(f"{what}: acked with a receipt before")
        if position in model.left and members & ~model.left[position]:
            complain(
                f"{what}: members {members:b} are delivered again, receipts left {model.left[position]:b}"
            )
        if model.has_many and any(position in each.held for each in model.consumers if not each.is_gone):
            complain(f"{what}: pending at another consumer")
        if complaint := model.order.complaint(self, entry, position):
            complain(f"{what}: {complaint}")
        self.held[position] = delivery
        model.seen[position] = model.seen.get(position, 0) + 1

    def grant(self, permits: int) -> None:
        """Grant the broker permits."""
        self.permits += permits
        self.flow(permits)

    def acknowledge(self, positions: Sequence[Position], remaining: int | None, *, receipt: bool) -> None:
        """Acknowledge entries. With `receipt`, the model counts them as acked when the receipt comes."""
        assert self.consumer is not None

        def on_durable(error: BrokerError | None) -> None:
            if error is None:
                for position in positions:
                    self.model.stored(position, remaining)

        for position in positions:
            if remaining is None:
                self.held.pop(position, None)
                self.model.hoped.add(position)
            else:
                left = self.model.hoped_left[position] = self.model.hoped_left.get(position, -1) & remaining
                if not left:
                    self.model.hoped.add(position)
        self.consumer.ack(
            [AckRequest(position, remaining) for position in positions],
            cumulative=False,
            on_durable=on_durable if receipt else None,
        )

    def give_back(self, positions: Sequence[Position] | None) -> None:
        """Ask the broker to deliver these entries again; None asks for all that this consumer holds."""
        assert self.consumer is not None
        self.model.order.begins_again(self)
        if positions is None or not self.model.has_many:
            self.held.clear()
        else:
            for position in positions:
                self.held.pop(position, None)
        self.consumer.redeliver(positions)

    def leave(self) -> None:
        """End the connection."""
        self.is_gone = True
        self.model.consumers.remove(self)
        if self.consumer is not None:
            self.consumer.detach()

    def on_active_change(self, is_active: bool) -> None:
        """Forget the last delivery: a Failover consumer that becomes active begins after mark-delete."""
        super().on_active_change(is_active)
        self.model.order.begins_again(self)

    def on_consumer_closed(self, reason: str) -> None:
        """Record that the broker closed the consumer. The client may subscribe again."""
        super().on_consumer_closed(reason)
        self.is_gone = True
        if self in self.model.consumers:
            self.model.consumers.remove(self)
