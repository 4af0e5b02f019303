"""The data that a client sends to prove who it is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClientCertificate", "Credentials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A client's certificate that the TLS handshake has checked."""

    name: str  # the common name of its subject
    expires_ms: int  # end of its validity, in milliseconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of one connection or one request, before the broker has checked them."""

    method: str | None = None  # as the client names it; None = the one that fits the credentials
    data: bytes = b""  # a token, or user:password
    certificate: ClientCertificate | None = None
    host: str = ""  # the client's address without its port
    original_role: str = ""  # the role of the client for which a proxy connects; "" = none
    original_method: str | None = None
    original_data: bytes = b""  # the credentials that the proxy got from that client
