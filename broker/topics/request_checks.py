"""What no topic could grant, checked before one is opened: what is refused here makes no topic and no namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.client_identity import INTERNAL_FACE
from broker.core.errors import NotAllowed
from broker.core.producers.access import OUTBOX_PRODUCER
from broker.core.schemas.schema import SchemaType
from broker.core.subscription.types import SubscriptionType, check_attach, check_name, check_printable
from broker.producers.schemas import check_schema

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.producers.requests import ProducerRequest
    from broker.subscription.requests import SubscribeRequest

__all__ = ["check_producer", "check_subscribe"]


def check_producer(request: ProducerRequest, identity: ClientIdentity) -> None:
    """Raises NotAllowed for names, IncompatibleSchema for a schema that is none."""
    check_printable("producer", request.name or "")
    if request.name == OUTBOX_PRODUCER and identity.face != INTERNAL_FACE:
        raise NotAllowed(
            f"producer name {OUTBOX_PRODUCER} is the broker's own, for what Django code publishes: choose another"
        )
    if request.initial_subscription:
        check_name(request.initial_subscription)
    if request.schema is not None and request.schema.type is not SchemaType.NONE:
        check_schema(request.schema)


def check_subscribe(request: SubscribeRequest) -> None:
    """Raises NotAllowed for names and options that contradict each other, ConsumerAssignFailed, IncompatibleSchema."""
    check_printable("consumer", request.consumer_name)
    check_name(request.subscription)
    check_attach(
        request.type,
        current=None,
        consumers=0,
        read_compacted=request.read_compacted,
        persistent=request.topic.domain == "persistent",
    )
    if request.type is SubscriptionType.KEY_SHARED or (
        request.type is SubscriptionType.EXCLUSIVE and request.key_shared.ranges
    ):
        request.key_shared.check()
    if request.schema is not None and request.schema.type not in (SchemaType.NONE, SchemaType.AUTO_CONSUME):
        check_schema(request.schema)
