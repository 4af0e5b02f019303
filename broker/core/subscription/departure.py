"""Why a consumer left its subscription."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DepartureCause"]


class DepartureCause(StrEnum):
    """The reason for a departure. The database stores these values."""

    CLOSED = "closed"
    LOST = "lost"  # The connection or the broker's process ended
    BROKER = "broker"  # The broker closed the consumer
    INCOMPATIBLE = "incompatible"  # The client is too old to receive part of a batch
