"""What crosses between a producer and its door: the request that opens it, and the sink that a door implements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from broker.core.producers.access import AccessMode

if TYPE_CHECKING:
    from broker.core.errors import BrokerError
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.topic_name import TopicName
    from broker.log.sends import Receipt, SendRequest

__all__ = ["ProducerRequest", "ProducerSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRequest:
    """Opening a producer. The topic is created when it is absent and `create_topic` allows it."""

    topic: TopicName
    name: str | None  # None = the broker makes one
    epoch: int = 0
    user_provided_name: bool = True
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    initial_subscription: str | None = None  # created at Earliest with the topic (dead-letter producers)
    access_mode: AccessMode = AccessMode.SHARED
    topic_epoch: int | None = None  # of an exclusive producer that connects again, as it was told before
    schema: SchemaDefinition | None = None
    on_ready: Callable[[], None] | None = None  # called when a producer that had to wait may send
    on_throttled: Callable[[bool], None] | None = None  # the topic's publish rate is spent, or there is room


class ProducerSink(Protocol):
    """What a transport does for one of its producers. Calls come from the event loop and must not block."""

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """The sends are durable. One call may carry many; write them with one transport write."""

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """This send is known not to be stored."""

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """The broker closed the producer; no further call follows. The client reconnects and sends again."""

    async def is_alive(self) -> bool:
        """Ask the peer (a ping, 5 s at most): somebody else wants its place."""
