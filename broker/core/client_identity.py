"""The client of a producer or consumer. A face is the interface that the client uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["INTERNAL_FACE", "JSON_FACE", "ClientIdentity"]

INTERNAL_FACE: Final = "internal"  # Face of producers that the broker itself opens
JSON_FACE: Final = "websocket"  # Face of the WebSocket API


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """What the broker knows about a client."""

    address: str  # "ip:port", or a word such as "outbox" if the broker itself is the client
    client_version: str
    face: str  # "binary", "binary-websocket", "rest", JSON_FACE or INTERNAL_FACE
    certificate_name: str = ""
    protocol_version: int = 21  # Default for clients without the binary protocol
