"""The handshake of two peers before they exchange other commands: its version and its states."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["PROTOCOL_VERSION", "ConnectionState"]

PROTOCOL_VERSION: Final = 21
"""The newest protocol version that Vela speaks."""


class ConnectionState(enum.Enum):
    """The state of the handshake."""

    START = "start"  # CONNECT has not been sent
    CONNECTING = "connecting"  # CONNECT has been sent, the broker decides
    CONNECTED = "connected"
    FAILED = "failed"  # the peer broke the protocol, or the broker refused the client: close
