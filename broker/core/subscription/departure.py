"""Why a consumer left its subscription."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DepartureCause"]


class DepartureCause(StrEnum):
    """The cause of a consumer's departure. The console reads the values from the table `vela_consumer_departure`."""

    CLOSED = "closed"  # its client closed it
    LOST = "lost"  # its connection or the broker's process ended
    BROKER = "broker"  # the broker closed it, for a reason that it told the client
    INCOMPATIBLE = "incompatible"  # the broker ended the connection: the client cannot read a message
