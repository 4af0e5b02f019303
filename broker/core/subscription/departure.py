"""Why a consumer left its subscription."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DepartureCause"]


class DepartureCause(StrEnum):
    """The cause of a consumer's departure. The table `vela_consumer_departure` stores the values."""

    CLOSED = "closed"  # its client closed it
    LOST = "lost"  # its connection or the broker's process ended
    BROKER = "broker"  # the broker closed it; the reason is stored too
    INCOMPATIBLE = "incompatible"  # the broker closed it, because its client is too old to split batches
