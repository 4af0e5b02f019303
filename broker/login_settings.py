"""Settings for logging in to the console, with a password or through an OpenID Connect login server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainValidator

from broker.environment import Between, SettingInvalid, Variable

__all__ = ["ROLES", "GroupRole", "LoginSettings", "is_role_pattern", "issuer_url"]

ROLES: Final = ("viewer", "reader", "operator", "admin")

_NAME: Final = r"(?!\.+/?\Z)[-=:.\w]{1,255}"
_PATTERN: Final = re.compile(rf"\*|{_NAME}/(?:\*|{_NAME})", re.ASCII)
# If this expression matches inside a group's name, VELA_OIDC_ROLES lacks a semicolon.
_ENTRY: Final = re.compile(rf"=(?:{'|'.join(ROLES)}):")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRole:
    """A console role for the members of a group at the login server."""

    group: str
    role: str  # One of ROLES
    pattern: str


def is_role_pattern(text: str) -> bool:
    """Return whether a text is `*`, `tenant/*` or `tenant/namespace`."""
    return _PATTERN.fullmatch(text) is not None


def issuer_url(url: str) -> str:
    """Check and return the URL of an OpenID Connect server.

    Raises ValueError for a malformed URL, a URL without a host, and a URL with a query or a fragment. Only a server on
    this machine may use plain http.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"it takes a URL, and this one cannot be read: {error}") from None
    if not parts.hostname or parts.query or parts.fragment:
        raise ValueError("it takes a URL without a query, such as https://login.example.org/realms/staff")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ValueError("it takes an https URL; http is for a login server on this machine")
    return url


def _scopes(text: str) -> str:
    scopes = text.split()
    if "openid" not in scopes:
        raise ValueError("it takes scopes separated by spaces, openid among them")
    return " ".join(scopes)


def _group_roles(text: str) -> tuple[GroupRole, ...]:
    found = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        group, equals, given = part.rpartition("=")
        role, colon, pattern = given.partition(":")
        is_whole = equals and colon and group.strip() and not _ENTRY.search(group)
        if not is_whole or role not in ROLES or not is_role_pattern(pattern):
            raise ValueError(f"it takes group=role:pattern, separated by semicolons, which {part!r} is not")
        found.append(GroupRole(group=group.strip(), role=role, pattern=pattern))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Settings for logging in to the console."""

    require_second_factor: Annotated[
        Literal["nobody", "admins", "everybody"],
        Variable(
            "VELA_REQUIRE_SECOND_FACTOR",
            "`nobody`, `admins`, `everybody`",
            "who needs a second factor besides the password",
        ),
    ] = "nobody"
    local_login: Annotated[
        bool, Variable("VELA_LOCAL_LOGIN", "switch", "users may log in with a password of Vela's own")
    ] = True
    oidc_issuer: Annotated[
        str,
        AfterValidator(issuer_url),
        Variable("VELA_OIDC_ISSUER", "URL", "the OpenID Connect login server"),
    ] = ""
    oidc_name: Annotated[
        str, Variable("VELA_OIDC_NAME", "text", "what pages and the act log call the login server")
    ] = "single sign-on"
    oidc_client_id: Annotated[
        str, Variable("VELA_OIDC_CLIENT_ID", "text", "this console's name at the login server")
    ] = ""
    oidc_client_secret: Annotated[
        str,
        Variable(
            "VELA_OIDC_CLIENT_SECRET", "text", "this console's secret at the login server", is_secret=True
        ),
    ] = field(default="", repr=False)
    oidc_client_secret_file: Annotated[
        Path | None,
        Variable(
            "VELA_OIDC_CLIENT_SECRET_FILE", "file", "the file with this console's secret at the login server"
        ),
    ] = None
    oidc_scopes: Annotated[
        str,
        AfterValidator(_scopes),
        Variable("VELA_OIDC_SCOPES", "names, separated by spaces", "what to ask the login server for"),
    ] = "openid profile email"
    oidc_groups_claim: Annotated[
        str, Variable("VELA_OIDC_GROUPS_CLAIM", "name", "the claim that has a user's groups")
    ] = "groups"
    oidc_roles: Annotated[
        tuple[GroupRole, ...],
        PlainValidator(_group_roles),
        Variable(
            "VELA_OIDC_ROLES", "group=role:pattern, separated by semicolons", "the roles that groups give"
        ),
    ] = ()
    oidc_session_hours: Annotated[
        int,
        Between(1, 24 * 365),
        Variable(
            "VELA_OIDC_SESSION_HOURS", "h", "after how long a user must log in at the login server again"
        ),
    ] = 12

    def check_together(self) -> None:
        """Raise SettingInvalid if these settings do not fit together."""
        if not self.oidc_issuer:
            if not self.local_login:
                raise SettingInvalid("VELA_LOCAL_LOGIN is 0: without VELA_OIDC_ISSUER nobody could log in")
            return
        if not self.oidc_client_id:
            raise SettingInvalid("VELA_OIDC_CLIENT_ID is not set: VELA_OIDC_ISSUER needs it")
        if bool(self.oidc_client_secret) == (self.oidc_client_secret_file is not None):
            raise SettingInvalid(
                "VELA_OIDC_ISSUER needs a secret: set either VELA_OIDC_CLIENT_SECRET or VELA_OIDC_CLIENT_SECRET_FILE"
            )
