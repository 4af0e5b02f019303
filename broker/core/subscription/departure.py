"""Causes of a consumer's departure."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DepartureCause"]


class DepartureCause(StrEnum):
    """The cause of a consumer's departure. The database stores the values."""

    CLOSED = "closed"
    LOST = "lost"  # The connection or the broker's process ended
    BROKER = "broker"
    INCOMPATIBLE = "incompatible"  # The client is too old to split batches
