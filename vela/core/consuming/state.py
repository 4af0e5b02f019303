"""The states of a consumer, and the calls that each of them allows."""

from __future__ import annotations

import enum

__all__ = ["ConsumerState"]


class ConsumerState(enum.Enum):
    """The state of a consumer."""

    UNINITIALIZED = "uninitialized"  # created, not subscribed yet
    CONNECTING = "connecting"  # subscribing, or reconnecting
    READY = "ready"
    CLOSING = "closing"
    CLOSED = "closed"  # closed by the application, or unable to continue
    FAILED = "failed"  # could not subscribe, or cannot subscribe again

    @property
    def can_receive(self) -> bool:
        """Whether a receive can get a message, now or later."""
        return self in (ConsumerState.READY, ConsumerState.CONNECTING)

    @property
    def is_over(self) -> bool:
        """Whether the consumer is closed, or is being closed."""
        return self in (ConsumerState.CLOSING, ConsumerState.CLOSED)
