"""Where two peers stand before they exchange commands: a version and a state."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["PROTOCOL_VERSION", "ConnectionState"]

PROTOCOL_VERSION: Final = 21
"""The newest protocol version spoken here."""


class ConnectionState(enum.Enum):
    """Where the handshake stands."""

    START = "start"  # CONNECT has not been sent
    CONNECTING = "connecting"  # CONNECT has been sent, the broker decides
    CONNECTED = "connected"
    FAILED = "failed"  # the peer broke the protocol, or was refused: close
