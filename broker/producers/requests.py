"""The interface between a producer and its door, which speaks the client's protocol (`broker/doors`).

It consists of the request to open the producer, and the sink for its answers.
"""

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
    """A request to open a producer. A missing topic is created if `create_topic` allows it."""

    topic: TopicName
    name: str | None  # None = the broker makes up a name
    epoch: int = 0
    user_provided_name: bool = True
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    initial_subscription: str | None = None  # created if missing, except on a non-persistent topic
    access_mode: AccessMode = AccessMode.SHARED
    topic_epoch: int | None = None  # the epoch an exclusive producer had before it connected again
    schema: SchemaDefinition | None = None
    on_ready: Callable[[], None] | None = None  # called when the producer had to wait and has now got access
    on_throttled: Callable[[bool], None] | None = None  # True: stop reading; False: read again

    def require_deduplication(self, *, is_on: bool) -> None:
        """Raise NotAllowed if the topic does not deduplicate and the producer's property `vela.requires` asks for it.

        This tells the client before its first message that repeats would be stored twice.
        """
        if not is_on and self.properties.get("vela.requires") == "deduplication":
            raise NotAllowed(
                f"{self.topic} does not deduplicate, and the producer requires it: set the topic's policy deduplication"
            )


class ProducerSink(Protocol):
    """The door's side of one producer. Called from the event loop; the calls must not block."""

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Send these receipts to the client."""

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Answer this send, which is known not to be stored."""

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """Tell the client that the broker closed the producer. No answer to an earlier send follows."""

    async def is_alive(self) -> bool:
        """Return whether the client still uses this producer.

        Called when another producer wants its name or exclusive access. A door that can ping its client waits at most
        5 s for the answer.
        """
