"""The connection settings of a client, from the arguments of `Client`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from vela.authentication import Authentication

__all__ = ["ConnectionSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The connection settings of a client."""

    authentication: Authentication
    client_version: str  # free text, for the broker's statistics
    tls: ssl.SSLContext | None  # for encrypted addresses; None = no address is encrypted
    tcp_no_delay: bool
    connection_timeout_s: float  # for TCP, TLS, WebSocket and protocol handshake together
    operation_timeout_s: float
    keep_alive_interval_s: float
    connections_per_broker: int  # 0 = a separate connection for each consumer and producer
    connection_max_idle_s: float
    concurrent_lookup_requests: int  # limit for one connection
    listener_name: str | None
    initial_backoff_ms: float
    max_backoff_ms: float
