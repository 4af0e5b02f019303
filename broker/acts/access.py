"""Create, revoke and check tokens, and set permissions."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from broker.access.issuers import Issuers
from broker.access.token_keys import TokenKeys
from broker.access_settings import AccessSettings
from broker.clock import SystemClock
from broker.core.access.permissions import CLUSTER, Permission, Subject, check_grant
from broker.core.access.tokens import TOKEN_METHOD, TokenKey, issue, verify
from broker.core.errors import AuthenticationFailed
from broker.models import AccessToken
from broker.storage.access import ADMIN, subject_columns
from broker.storage.queries import query

__all__ = [
    "ADMIN",
    "CreatedToken",
    "NoSigningKey",
    "TokenRefused",
    "create_token",
    "possible_permissions",
    "revoke_token",
    "role_of_token",
    "set_permissions",
    "tokens",
]

_ID_BYTES: Final = 12


class NoSigningKey(Exception):
    """The settings have no secret key."""


class TokenRefused(Exception):
    """The token is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedToken:
    """A new token. The database has no copy of `token`."""

    id: str
    token: str
    expires_at: datetime | None


def create_token(
    settings: AccessSettings,
    role: str,
    *,
    lifetime_ms: int | None,
    who: str,
    origin: str,
    private_key: TokenKey | None = None,
) -> CreatedToken:
    """Sign a token and record its id. Without `private_key`, the first secret key in the settings signs the token.

    Raises NotAllowed for an invalid role, NoSigningKey if there is no key, and SettingInvalid if a key cannot be used.
    """
    check_grant(CLUSTER, [role])
    key = private_key or _signing_key(settings)
    now_ms = SystemClock().now_ms()
    expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
    token_id = secrets.token_hex(_ID_BYTES)
    token = issue(
        key,
        role=role,
        token_id=token_id,
        issued_ms=now_ms,
        expires_ms=expires_ms,
        role_claim=settings.token_role_claim,
        audience=settings.token_audience,
    )
    expires_at = None if expires_ms is None else datetime.fromtimestamp(expires_ms // 1000, UTC)
    with transaction.atomic():
        AccessToken.objects.create(
            id=token_id, role=role, created_by=who, created_at=timezone.now(), expires_at=expires_at
        )
        _log("create_token", {"token": token_id, "role": role}, who=who, origin=origin)
    return CreatedToken(id=token_id, token=token, expires_at=expires_at)


def _signing_key(settings: AccessSettings) -> TokenKey:
    key = TokenKeys(settings).first_secret()
    if key is None:
        raise NoSigningKey(
            "there is no key to sign with: set VELA_TOKEN_SECRET_KEY_FILE to the file that the broker has, or name a"
            " private key with --private-key"
        )
    return key


def revoke_token(token_id: str, *, who: str, origin: str) -> bool:
    """Revoke a token and close its connections. Safe to repeat.

    `token_id` is the token's `jti` claim. Returns False if Vela had no record of the token.
    """
    with transaction.atomic():
        token, is_foreign = AccessToken.objects.get_or_create(
            id=token_id, defaults={"role": "", "created_by": "", "created_at": timezone.now()}
        )
        if token.revoked_at is None:
            token.revoked_at, token.revoked_by = timezone.now(), who
            token.save()
            _log("revoke_token", {"token": token_id, "role": token.role}, who=who, origin=origin)
        _notify("changed", {})
    return not is_foreign


def role_of_token(settings: AccessSettings, token: str) -> str:
    """Check a token and return its role. May block to fetch an issuer's keys.

    Raises TokenRefused if the token is not valid, and SettingInvalid if a key in the settings cannot be used.
    """
    now_ms = SystemClock().now_ms()
    issuers = _issuers(settings)
    origin = issuers.origin(token)
    if origin is None and TOKEN_METHOD not in settings.authentication:
        raise TokenRefused(
            "the token is from no issuer of VELA_OPENID_ISSUERS, and tokens of Vela's own keys are accepted only with"
            " VELA_AUTHENTICATION=token: send HTTP Basic credentials"
        )
    try:
        if origin is not None:
            principal = issuers.verify_blocking(token, origin, now_ms)
        else:
            keys = _keys(settings)
            keys.refresh()
            principal = verify(
                token,
                keys.current(),
                now_ms=now_ms,
                role_claim=settings.token_role_claim,
                audience=settings.token_audience,
            )
    except AuthenticationFailed as error:
        raise TokenRefused(str(error)) from None
    if AccessToken.objects.filter(id=principal.token_id, revoked_at__isnull=False).exists():
        raise TokenRefused("the token was revoked: get a new one")
    return principal.role


@cache
def _issuers(settings: AccessSettings) -> Issuers:
    return Issuers(settings)


@cache
def _keys(settings: AccessSettings) -> TokenKeys:
    return TokenKeys(settings)


def tokens() -> list[AccessToken]:
    """Return all recorded tokens, oldest first."""
    return list(AccessToken.objects.order_by("created_at", "id"))


def set_permissions(
    subject: Subject, role: str, permissions: Collection[str], *, who: str, origin: str
) -> None:
    """Replace the permissions of a role on a subject, such as a topic. Safe to repeat.

    Raises ValueError if a permission cannot be granted on the subject. Raises NotAllowed if the name of the role or of
    the subscription is invalid.
    """
    check_grant(subject, [role])
    known = possible_permissions(subject)
    if unknown := set(permissions) - set(known):
        raise ValueError(
            f"{', '.join(sorted(unknown))} cannot be granted on {subject}: use {', '.join(known)}"
        )
    with transaction.atomic():
        _notify(
            "set_permissions",
            {**subject_columns(subject), "roles": [role], "permissions": sorted(permissions)},
        )
        _log(
            "set_permissions",
            {"role": role, "permissions": sorted(permissions)},
            topic=subject.topic or subject.namespace or f"{subject.tenant}/*",
            subscription=subject.subscription,
            who=who,
            origin=origin,
        )


def possible_permissions(subject: Subject) -> tuple[str, ...]:
    """Return the permissions that can be granted on the subject."""
    if not subject.namespace:
        return (ADMIN,)
    return (Permission.CONSUME,) if subject.subscription else tuple(Permission)


def _notify(name: str, parameters: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(query("access", name).decode(), parameters)


def _log(
    kind: str,
    parameters: Mapping[str, object],
    *,
    topic: str = "*",
    subscription: str = "",
    who: str,
    origin: str,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            query("acts", "record_change").decode(),
            {
                "kind": kind,
                "topic": topic,
                "subscription": subscription,
                "parameters": json.dumps(dict(parameters)),
                "who": who,
                "origin": origin,
                "reason": "",
            },
        )
