"""Make the trace spans of deliveries and acks on one subscription."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.position import Position

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from broker.subscription.requests import AckRequest, Delivery
    from broker.tracing.tracing import Tracing

__all__ = ["TracedDeliveries"]

# A subscription remembers at most this many traced entries.
MOST_REMEMBERED: Final = 1000


class _Acked(NamedTuple):
    position: Position
    parent: Context
    consumer: str
    acked_ns: int


class TracedDeliveries:
    """Makes the spans of deliveries and acks."""

    def __init__(self, tracing: Tracing, topic: str, subscription: str, *, is_durable: bool) -> None:
        self._tracing = tracing
        self._topic = topic
        self._subscription = subscription
        self._is_durable = is_durable
        self._delivered: dict[Position, Context] = {}  # Oldest first
        self._acked: list[_Acked] = []
        self._flushing: list[_Acked] = []

    def delivered(self, consumer: str, deliveries: Sequence[Delivery]) -> None:
        """Make a span for each traced entry."""
        for entry, redelivery_count, _ in deliveries:
            parent = self._tracing.parent_of(entry.data)
            if parent is None:
                continue
            self._tracing.span(
                "dispatch",
                self._topic,
                entry.ledger_id,
                entry.entry_id,
                parent,
                start_ns=entry.append_ms * 1_000_000,
                end_ns=time.time_ns(),
                attributes=self._attributes(consumer) | {"vela.redelivery_count": redelivery_count},
            )
            self._remember(Position(entry.ledger_id, entry.entry_id), parent)

    def _remember(self, position: Position, parent: Context) -> None:
        delivered = self._delivered
        delivered.pop(position, None)
        while len(delivered) + len(self._acked) + len(self._flushing) >= MOST_REMEMBERED:
            if not delivered:
                return
            del delivered[next(iter(delivered))]
        delivered[position] = parent

    def acked(
        self,
        consumer: str,
        acks: Sequence[AckRequest],
        is_acked: Callable[[Position], bool],
        *,
        cumulative: bool,
    ) -> None:
        """Record the traced entries that are now completely acked."""
        if not self._delivered:
            return
        now_ns = time.time_ns()
        for position, _ in acks:
            if cumulative:
                done = [each for each in self._delivered if each <= position and is_acked(each)]
            else:
                done = [position] if position in self._delivered and is_acked(position) else []
            self._acked += [_Acked(each, self._delivered.pop(each), consumer, now_ns) for each in done]
        if not self._is_durable:
            self.flushing()
            self.stored()

    def flushing(self) -> None:
        """Record that a flush has begun to store the acks."""
        self._flushing += self._acked
        self._acked = []

    def put_back(self) -> None:
        """Keep the acks for a later flush, because this flush did not store them."""
        self._acked = self._flushing + self._acked
        self._flushing = []

    def stored(self) -> None:
        """Make the spans of the acks that the flush has stored."""
        if not self._flushing:
            return
        end_ns = time.time_ns()
        for position, parent, consumer, acked_ns in self._flushing:
            self._tracing.span(
                "ack",
                self._topic,
                *position,
                parent,
                start_ns=acked_ns,
                end_ns=end_ns,
                attributes=self._attributes(consumer),
            )
        self._flushing = []

    def _attributes(self, consumer: str) -> dict[str, str | int]:
        return {"messaging.destination.subscription.name": self._subscription, "vela.consumer": consumer}
