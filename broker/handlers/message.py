"""The message that a handler gets."""

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

    topic: str  # Full name without the partition
    message_id: str  # Base64 of Pulsar's MessageIdData
    payload: bytes
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    # A time is None if the producer gave no valid time.
    publish_time: datetime | None = None
    event_time: datetime | None = None
    redelivery_count: int = 0  # Always 0 on Exclusive and Failover subscriptions

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises UnicodeDecodeError if the payload is not UTF-8."""
        return self.payload.decode()

    def json(self) -> Any:
        """Parse the payload as JSON. Raises ValueError if the payload is not JSON."""
        return json.loads(self.payload)

    @classmethod
    def from_received(cls, topic: str, received: ReceivedMessage) -> Message:
        """Convert a message that Vela's client received."""
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
    """Convert milliseconds since 1970 to a datetime. Return None for 0 or a time out of range."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms else None
    except (ValueError, OverflowError, OSError):  # A producer may send any number
        return None
