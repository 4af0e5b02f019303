"""What a handler is called with."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["Message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a subscription."""

    topic: str  # as the handler named it
    message_id: str  # base64 of Pulsar's MessageIdData
    payload: bytes
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    publish_time: datetime | None = None
    event_time: datetime | None = None  # the publisher's own, if it gave one
    redelivery_count: int = 0  # how often it was asked for again

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises UnicodeDecodeError."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON. Raises ValueError."""
        return json.loads(self.payload)

    @classmethod
    def from_push(cls, topic: str, push: Mapping[str, Any]) -> Message:
        """From a consumer frame of the WebSocket API. Raises KeyError, ValueError for a frame that is not one."""
        return cls(
            topic=topic,
            message_id=push["messageId"],
            payload=base64.b64decode(push["payload"], validate=True),
            key=push.get("key"),
            properties=push.get("properties") or {},
            publish_time=_moment(push.get("publishTime")),
            event_time=_moment(push.get("eventTime")),
            redelivery_count=push.get("redeliveryCount", 0),
        )


def _moment(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text)
