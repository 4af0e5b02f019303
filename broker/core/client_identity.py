"""The client at the other end of a producer or consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["INTERNAL_FACE", "JSON_FACE", "ClientIdentity"]

INTERNAL_FACE: Final = "internal"  # the face of producers that the broker itself opens
JSON_FACE: Final = "websocket"  # the face of producers, consumers and readers of the WebSocket API


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """The client at the other end, as the console shows it."""

    address: str  # "ip:port" of the peer; a word, such as "outbox", if the broker itself is the client
    client_version: str  # free text from the client, "" if it sent none
    face: str  # the interface it uses: "binary", "binary-websocket", "rest", JSON_FACE or INTERNAL_FACE
    certificate_name: str = ""  # the common name of the client's checked certificate; "" = none
    # Of Pulsar's binary protocol, as sent in CONNECT; 21 for clients that use another protocol.
    protocol_version: int = 21
