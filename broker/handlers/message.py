"""The message with which a handler is called."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vela.message import Message as ReceivedMessage

__all__ = ["Message", "moment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a subscription."""

    topic: str  # the full name of the handler's topic, not of the partition that the message came from
    message_id: str  # base64 of Pulsar's MessageIdData
    payload: bytes
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    # The two times are None if the producer gave none, or a number outside the range of a datetime.
    publish_time: datetime | None = None
    event_time: datetime | None = None  # when the event happened
    redelivery_count: int = 0  # redeliveries that the broker counted; always 0 on Exclusive and Failover

    @property
    def text(self) -> str:
        """The payload, decoded as UTF-8. Raises UnicodeDecodeError."""
        return self.payload.decode()

    def json(self) -> Any:
        """Parse the payload as JSON. Raises ValueError."""
        return json.loads(self.payload)

    @classmethod
    def from_received(cls, topic: str, received: ReceivedMessage) -> Message:
        """Convert a message that Vela's client received into the form that a handler gets."""
        return cls(
            topic=topic,
            message_id=base64.b64encode(received.message_id().serialize()).decode(),
            payload=received.data(),
            key=received.partition_key() or None,
            properties=received.properties(),
            publish_time=moment(received.publish_timestamp()),
            event_time=moment(received.event_timestamp()),
            redelivery_count=received.redelivery_count(),
        )


def moment(at_ms: int) -> datetime | None:
    """Return a time in ms since 1970 as a datetime; None if it is 0 or outside the range of a datetime."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms else None
    except (ValueError, OverflowError, OSError):  # a producer may send any number
        return None
