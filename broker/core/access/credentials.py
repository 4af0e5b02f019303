"""The data that a client sends to prove who it is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClientCertificate", "Credentials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A client's certificate that the TLS handshake has checked."""

    name: str  # Common name of the subject
    expires_ms: int  # Milliseconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The unchecked credentials of one connection or one request."""

    method: str | None = None  # None means the method that fits the credentials
    data: bytes = b""  # A token or user:password
    certificate: ClientCertificate | None = None
    host: str = ""  # Address without port
    original_role: str = ""  # Role of the client behind a proxy
    original_method: str | None = None
    original_data: bytes = b""
