"""The states of a consumer, and the calls that each of them allows."""

from __future__ import annotations

import enum

__all__ = ["ConsumerState"]


class ConsumerState(enum.Enum):
    """The state of a consumer."""

    UNINITIALIZED = "uninitialized"  # made, not subscribed yet
    CONNECTING = "connecting"  # subscribing, or again after a lost link
    READY = "ready"
    CLOSING = "closing"
    CLOSED = "closed"  # by the application, or because it cannot go on
    FAILED = "failed"  # the broker refused it for good

    @property
    def can_receive(self) -> bool:
        """Whether a receive is served, at once or when messages come."""
        return self in (ConsumerState.READY, ConsumerState.CONNECTING)

    @property
    def is_over(self) -> bool:
        """Whether the application has closed the consumer, which may still be closing."""
        return self in (ConsumerState.CLOSING, ConsumerState.CLOSED)
