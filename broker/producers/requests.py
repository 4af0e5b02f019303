"""The interface between producers and doors. A door speaks a protocol with clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from broker.core.errors import NotAllowed
from broker.core.producers.access import AccessMode

if TYPE_CHECKING:
    from broker.core.errors import BrokerError
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.topic_name import TopicName
    from broker.log.sends import Receipt, SendRequest

__all__ = ["ProducerRequest", "ProducerSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRequest:
    """A request to open a producer."""

    topic: TopicName
    name: str | None  # None means the broker chooses a name
    epoch: int = 0
    user_provided_name: bool = True
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    initial_subscription: str | None = None
    access_mode: AccessMode = AccessMode.SHARED
    topic_epoch: int | None = None  # Topic epoch that the client received earlier
    schema: SchemaDefinition | None = None
    on_ready: Callable[[], None] | None = None  # Called when a waiting producer gets exclusive access
    on_throttled: Callable[[bool], None] | None = None  # True means stop reading, False means resume

    def require_deduplication(self, *, is_on: bool) -> None:
        """Raise NotAllowed if the property `vela.requires` asks for deduplication and deduplication is off."""
        if not is_on and self.properties.get("vela.requires") == "deduplication":
            raise NotAllowed(
                f"{self.topic} does not deduplicate, and the producer requires it: set the topic's policy deduplication"
            )


class ProducerSink(Protocol):
    """The door's side of one producer. The methods run on the event loop and must not block."""

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Send these receipts to the client."""

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Tell the client that this send is not stored."""

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """Tell the client that the broker closed the producer. No more answers follow."""

    async def is_alive(self) -> bool:
        """Return whether the client still uses this producer."""
