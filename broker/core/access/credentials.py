"""The data with which a client proves its identity."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClientCertificate", "Credentials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A client's certificate that the TLS handshake has checked."""

    name: str  # Common name of the subject
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The unchecked credentials of one connection or one request."""

    method: str | None = None  # If None, the other fields decide the method
    data: bytes = b""  # A token, or user:password
    certificate: ClientCertificate | None = None
    host: str = ""
    original_role: str = ""  # Role of the client behind a proxy
    original_method: str | None = None
    original_data: bytes = b""
