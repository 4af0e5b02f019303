"""The credentials of an HTTP request or a WebSocket handshake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.core.access.principal import ANONYMOUS
from broker.core.access.tokens import TOKEN_METHOD
from broker.core.errors import AuthenticationFailed
from broker.doors.asgi import certificate_name_of

if TYPE_CHECKING:
    from broker.core.access.principal import Principal
    from broker.doors.asgi import Scope
    from broker.doors.ports import CredentialsPort

__all__ = ["principal_of", "principal_of_header"]

_BEARER: Final = "Bearer "


def principal_of(broker: CredentialsPort, scope: Scope, *, token: str = "") -> Principal:
    """Return who sent a request, by its headers or the client certificate of its connection.

    `token` is the address' own, which counts only without a header Authorization.

    Raises AuthenticationFailed, and TooManyRequests if its role asks too often.
    """
    if not broker.access.is_on:
        return ANONYMOUS
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    chosen, authorization = None, None
    for name, value in headers:
        if name == b"authorization":
            if authorization is not None:
                raise AuthenticationFailed("a request has one header Authorization")
            authorization = value
        elif name == b"x-pulsar-auth-method-name":
            chosen = value.decode("latin-1")
    if authorization is None and token:
        authorization = f"{_BEARER}{token.removeprefix(_BEARER)}".encode()
    return principal_of_header(
        broker, authorization, certificate_name=certificate_name_of(scope), chosen=chosen
    )


def principal_of_header(
    broker: CredentialsPort, authorization: bytes | None, *, certificate_name: str, chosen: str | None = None
) -> Principal:
    """Return who sent a request with this header Authorization.

    Raises AuthenticationFailed, and TooManyRequests if its role asks too often.

    `certificate_name` is the common name of the client's checked certificate, "" = it showed none. `chosen` is the
    method that the client named in `X-Pulsar-Auth-Method-Name`.
    """
    if not broker.access.is_on:
        return ANONYMOUS
    token = _token(authorization) if authorization else b""
    if chosen not in (None, TOKEN_METHOD) and token:
        raise AuthenticationFailed(f"the client names the method {chosen!r} and sends a token")
    principal = broker.access.authenticate(
        TOKEN_METHOD if token else chosen, token, broker.clock.now_ms(), certificate_name=certificate_name
    )
    broker.connections.rates.check_role(principal.role)
    return principal


def _token(authorization: bytes) -> bytes:
    scheme, _, token = authorization.strip().partition(b" ")
    if scheme.lower() != b"bearer":
        raise AuthenticationFailed("the header Authorization takes: Bearer ⟨token⟩")
    return token.strip()
