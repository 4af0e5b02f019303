"""The credentials of an HTTP request or a WebSocket handshake."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.core.access.credentials import Credentials
from broker.core.access.principal import ANONYMOUS
from broker.core.access.tokens import TOKEN_METHOD
from broker.core.errors import AuthenticationFailed
from broker.doors.asgi import certificate_of

if TYPE_CHECKING:
    from broker.core.access.credentials import ClientCertificate
    from broker.core.access.principal import Principal
    from broker.doors.asgi import Scope
    from broker.doors.ports import AccessPort, CredentialsPort

__all__ = ["CHOSEN_METHOD", "ORIGINAL_ROLE", "challenge_fields", "principal_now", "principal_of"]

CHOSEN_METHOD: Final = b"x-pulsar-auth-method-name"
ORIGINAL_ROLE: Final = b"x-original-principal"  # A proxy names its client's role in this header.
_BEARER: Final = "Bearer "
_BEARER_FIELD: Final = (b"WWW-Authenticate", b"Bearer")
_BASIC_FIELD: Final = (b"WWW-Authenticate", b'Basic realm="Vela", charset="UTF-8"')


async def principal_of(broker: CredentialsPort, scope: Scope, *, token: str = "") -> Principal:
    """Return the client that sent a request, or ANONYMOUS if the broker asks for no credentials.

    `token` is used only if the request has no Authorization header. Raises AuthenticationFailed or
    TooManyRequests. Raises NotAuthorized if X-Original-Principal is wrong, or if a proxy omits X-Original-Principal.
    """
    if not broker.access.is_on:
        return ANONYMOUS
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    chosen, authorization, original_role = None, None, ""
    for name, value in headers:
        if name == b"authorization":
            if authorization is not None:
                raise AuthenticationFailed("the request has several Authorization headers: send one")
            authorization = value
        elif name == CHOSEN_METHOD:
            chosen = value.decode("latin-1")
        elif name == ORIGINAL_ROLE:
            if original_role:
                raise AuthenticationFailed("the request has several headers X-Original-Principal: send one")
            original_role = value.decode("utf-8", "replace")
    if authorization is None and token:
        authorization = f"{_BEARER}{token.removeprefix(_BEARER)}".encode()
    client = scope.get("client")
    credentials = _credentials(
        authorization,
        certificate=certificate_of(scope),
        host=client[0] if client else "",
        chosen=chosen,
        original_role=original_role,
    )
    principal = await broker.access.authenticate(credentials, broker.clock.now_ms())
    broker.connections.rates.check_role(principal.role)
    return principal


def principal_now(
    broker: CredentialsPort, authorization: bytes | None, *, certificate: ClientCertificate | None, host: str
) -> Principal | None:
    """Return the client that sent a request, or None if only `principal_of` can check the credentials.

    Raises the same errors as `principal_of`.
    """
    if not broker.access.is_on:
        return ANONYMOUS
    credentials = _credentials(authorization, certificate=certificate, host=host)
    principal = broker.access.authenticate_now(credentials, broker.clock.now_ms())
    if principal is not None:
        broker.connections.rates.check_role(principal.role)
    return principal


def challenge_fields(access: AccessPort) -> tuple[tuple[bytes, bytes], ...]:
    """Return the WWW-Authenticate fields of an answer with status 401.

    If the broker accepts only client certificates, return a Bearer field, because HTTP has no scheme for
    certificates.
    """
    fields = []
    if access.takes_tokens or not access.takes_passwords:
        fields.append(_BEARER_FIELD)
    if access.takes_passwords:
        fields.append(_BASIC_FIELD)
    return tuple(fields)


def _credentials(
    authorization: bytes | None,
    *,
    certificate: ClientCertificate | None,
    host: str,
    chosen: str | None = None,
    original_role: str = "",
) -> Credentials:
    method, data = _proof(authorization) if authorization else (None, b"")
    if chosen is not None and method not in (None, chosen):
        raise AuthenticationFailed(f"the client names the method {chosen!r} and sends {method} credentials")
    return Credentials(
        method=method or chosen,
        data=data,
        certificate=certificate,
        host=host,
        original_role=original_role,
    )


def _proof(authorization: bytes) -> tuple[str, bytes]:
    scheme, _, text = authorization.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return TOKEN_METHOD, text.strip()
    if scheme.lower() == b"basic":
        try:
            return "basic", base64.b64decode(text.strip(), validate=True)
        except binascii.Error:
            pass
    raise AuthenticationFailed(
        "the Authorization header takes: Bearer ⟨token⟩, or Basic ⟨user:password in base64⟩"
    )
