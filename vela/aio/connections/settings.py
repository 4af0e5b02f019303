"""How a client connects: made once from the arguments of `Client`, read by all parts of it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from vela.authentication import Authentication

__all__ = ["ConnectionSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Names without a unit are counts or switches."""

    authentication: Authentication
    client_version: str  # free text, for the broker's statistics
    tls: ssl.SSLContext | None  # for encrypted addresses; None = none of them is
    tcp_no_delay: bool
    connection_timeout_s: float  # of TCP, TLS, WebSocket and protocol handshake together
    operation_timeout_s: float
    keep_alive_interval_s: float
    connections_per_broker: int  # 0 = a connection for everyone
    connection_max_idle_s: float
    concurrent_lookup_requests: int  # of one connection
    listener_name: str | None
    initial_backoff_ms: float
    max_backoff_ms: float
