"""A client of the model, which keeps only what a client can know."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.position import Position
from broker.subscription.requests import AckRequest, Delivery
from tests.support.broker_harness import ConsumerProbe

__all__ = ["Client", "members"]


def members(bits: int) -> frozenset[int]:
    """Return the indexes of the bits that are set."""
    return frozenset(index for index in range(bits.bit_length()) if bits >> index & 1)


class Client(ConsumerProbe):
    """A consumer, and what its client knows. It passes each delivery to `on_delivery`, which checks it."""

    def __init__(self, name: str, on_delivery: Callable[[Client, Delivery, Position], None]) -> None:
        super().__init__()
        self.name = name
        self.granted = 0  # messages since the client connected
        self.received = 0  # messages
        # The delivered and unacked members of each entry that the client has not given back.
        self.held: dict[Position, frozenset[int]] = {}
        self.last: Position | None = None  # the last delivery since the client gave everything back
        self._on_delivery = on_delivery

    @property
    def permits(self) -> int:
        """The permits that the client granted and the broker has not used yet."""
        return self.granted - self.received

    @property
    def is_gone(self) -> bool:
        """Whether the client left, or the broker closed it."""
        return self.consumer is not None and not self.consumer.is_open

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take the deliveries one by one."""
        super().deliver(deliveries)
        for delivery in deliveries:
            position = Position(delivery.entry.ledger_id, delivery.entry.entry_id)
            self._on_delivery(self, delivery, position)

    def grant(self, permits: int) -> None:
        """Grant the broker permits."""
        self.granted += permits
        self.flow(permits)

    def give_back(self, positions: Sequence[Position] | None) -> None:
        """Ask the broker to deliver these entries again, or all."""
        assert self.consumer is not None
        self.consumer.redeliver(positions)

    def acknowledge(
        self, positions: Sequence[Position], part: int | None, *, cumulative: bool = False
    ) -> None:
        """Ack whole entries, or the members whose bit is 0 in `part`."""
        assert self.consumer is not None
        self.consumer.ack([AckRequest(position, part) for position in positions], cumulative=cumulative)

    def leave(self) -> None:
        """End the connection."""
        assert self.consumer is not None
        self.consumer.detach()

    def read_again(self) -> None:
        """Tell the broker that the socket takes bytes again."""
        assert self.consumer is not None
        self.consumer.writable_again()
