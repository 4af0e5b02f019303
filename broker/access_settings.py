"""The settings that decide who may use the broker's ports."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from pydantic import PlainValidator

from broker.door_settings import DoorSettings
from broker.environment import Between, Names, SettingInvalid, Variable, listed
from broker.login_settings import issuer_url

__all__ = ["AccessSettings"]

NO_AUTHENTICATION: Final = "none"
_METHODS: Final = ("token", "tls", "basic", "openid")


def _methods(text: str) -> tuple[str, ...]:
    methods = listed(text.lower())
    if methods != (NO_AUTHENTICATION,) and not set(methods) <= set(_METHODS):
        raise ValueError(f"it takes {', '.join(_METHODS)}, separated by commas, or none")
    return methods


def _issuers(text: str) -> tuple[str, ...]:
    return tuple(issuer_url(each) for each in listed(text))


def _files(text: str) -> tuple[Path, ...]:
    return tuple(Path(each) for each in listed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings(DoorSettings):
    """Settings for authentication and for roles with special rights."""

    authentication: Annotated[
        tuple[str, ...],
        PlainValidator(_methods),
        Variable(
            "VELA_AUTHENTICATION",
            "`token`, `tls`, `basic`, `openid`, separated by commas; `none`",
            "how clients prove who they are",
        ),
    ] = ()
    token_secret_key: Annotated[
        Names,
        Variable(
            "VELA_TOKEN_SECRET_KEY", "base64, separated by commas", "secret keys of tokens", is_secret=True
        ),
    ] = field(default=(), repr=False)
    token_secret_key_file: Annotated[
        tuple[Path, ...],
        PlainValidator(_files),
        Variable(
            "VELA_TOKEN_SECRET_KEY_FILE", "files, separated by commas", "files with secret keys of tokens"
        ),
    ] = ()
    token_public_key: Annotated[
        Names,
        Variable("VELA_TOKEN_PUBLIC_KEY", "base64, separated by commas", "public keys of tokens, RSA or EC"),
    ] = ()
    token_public_key_file: Annotated[
        tuple[Path, ...],
        PlainValidator(_files),
        Variable(
            "VELA_TOKEN_PUBLIC_KEY_FILE", "files, separated by commas", "files with public keys of tokens"
        ),
    ] = ()
    token_role_claim: Annotated[
        str, Variable("VELA_TOKEN_ROLE_CLAIM", "name", "the token's claim that holds the role")
    ] = "sub"  # noqa: S105 - the name of a claim
    token_audience: Annotated[
        str, Variable("VELA_TOKEN_AUDIENCE", "text", "the audience that tokens must be for")
    ] = ""
    basic_file: Annotated[
        Path | None,
        Variable("VELA_BASIC_FILE", "file", "the users and passwords of clients, as `htpasswd` writes them"),
    ] = None
    openid_issuers: Annotated[
        tuple[str, ...],
        PlainValidator(_issuers),
        Variable(
            "VELA_OPENID_ISSUERS",
            "URLs, separated by commas",
            "the OpenID Connect issuers whose tokens are accepted",
        ),
    ] = ()
    openid_audiences: Annotated[
        Names,
        Variable(
            "VELA_OPENID_AUDIENCES",
            "strings, separated by commas",
            "the audiences; a token must have one of them",
        ),
    ] = ()
    openid_role_claim: Annotated[
        str, Variable("VELA_OPENID_ROLE_CLAIM", "name", "the claim that holds the role in an issuer's token")
    ] = "sub"
    openid_leeway_s: Annotated[
        int,
        Between(0, 3600),
        Variable("VELA_OPENID_LEEWAY_S", "s", "how far an issuer's clock may differ from this machine's"),
    ] = 0
    openid_trust_file: Annotated[
        Path | None,
        Variable("VELA_OPENID_TRUST_FILE", "file", "the authorities that sign the issuers' certificates"),
    ] = None
    openid_timeout_s: Annotated[
        int, Between(1, 300), Variable("VELA_OPENID_TIMEOUT_S", "s", "how long to wait for an issuer")
    ] = 10
    openid_keys_refresh_s: Annotated[
        int,
        Between(1),
        Variable("VELA_OPENID_KEYS_REFRESH_S", "s", "the age at which an issuer's keys are read again"),
    ] = 18 * 3600
    openid_keys_expiry_s: Annotated[
        int,
        Between(1),
        Variable("VELA_OPENID_KEYS_EXPIRY_S", "s", "how long keys are used if they cannot be read again"),
    ] = 24 * 3600
    openid_unknown_key_refresh_s: Annotated[
        int,
        Between(1),
        Variable(
            "VELA_OPENID_UNKNOWN_KEY_REFRESH_S",
            "s",
            "the least time between two reads of the keys for unknown key ids",
        ),
    ] = 300
    proxy_roles: Annotated[
        Names,
        Variable("VELA_PROXY_ROLES", "roles, separated by commas", "roles that connect for other clients"),
    ] = ()
    authenticate_original_auth_data: Annotated[
        bool,
        Variable(
            "VELA_AUTHENTICATE_ORIGINAL_AUTH_DATA",
            "switch",
            "the broker itself checks the credentials of clients behind a proxy",
        ),
    ] = False
    superuser_roles: Annotated[
        Names, Variable("VELA_SUPERUSER_ROLES", "roles, separated by commas", "roles that may do everything")
    ] = ()
    anonymous_role: Annotated[
        str, Variable("VELA_ANONYMOUS_ROLE", "role", "the role of clients without credentials")
    ] = ""
    client_token: Annotated[
        str,
        Variable("VELA_TOKEN", "text", "the token with which handlers and jobs connect", is_secret=True),
    ] = field(default="", repr=False)
    client_token_file: Annotated[
        str, Variable("VELA_TOKEN_FILE", "file", "the file with the token of handlers and jobs")
    ] = ""
    metrics_roles: Annotated[
        Names,
        Variable("VELA_METRICS_ROLES", "roles, separated by commas; `*`", "roles that may read /metrics"),
    ] = ()

    @property
    def asks_for_credentials(self) -> bool:
        """Whether the broker authenticates its clients."""
        return self.authentication not in ((), (NO_AUTHENTICATION,))

    @property
    def takes_openid_tokens(self) -> bool:
        """Whether the broker accepts tokens of OpenID Connect issuers."""
        return "openid" in self.authentication

    def check_access(self) -> None:
        """Raise SettingInvalid if a setting is missing or contradicts another setting."""
        keys = (
            self.token_secret_key,
            self.token_secret_key_file,
            self.token_public_key,
            self.token_public_key_file,
        )
        if "token" in self.authentication and not any(keys):
            raise SettingInvalid(
                "VELA_AUTHENTICATION is token, which needs a key: set VELA_TOKEN_SECRET_KEY_FILE to a file made with"
                " `openssl rand -base64 32`, or VELA_TOKEN_PUBLIC_KEY_FILE"
            )
        if "basic" in self.authentication and self.basic_file is None:
            raise SettingInvalid(
                "VELA_AUTHENTICATION is basic, which needs passwords: set VELA_BASIC_FILE to a file made with"
                " `htpasswd -B`"
            )
        if self.takes_openid_tokens and not (self.openid_issuers and self.openid_audiences):
            raise SettingInvalid(
                "VELA_AUTHENTICATION is openid, which needs VELA_OPENID_ISSUERS and VELA_OPENID_AUDIENCES: without an"
                " audience, every token of an issuer would be accepted, whatever it was made for"
            )
        if self.openid_keys_refresh_s > self.openid_keys_expiry_s:
            raise SettingInvalid(
                "VELA_OPENID_KEYS_REFRESH_S is larger than VELA_OPENID_KEYS_EXPIRY_S: keys would expire before they are"
                " read again"
            )
        if self.anonymous_role and self.anonymous_role in self.proxy_roles:
            raise SettingInvalid(
                "VELA_PROXY_ROLES contains the role in VELA_ANONYMOUS_ROLE: everybody could connect for others"
            )

    def check_exposure(self, bind: str) -> bool:
        """Return True if other machines can reach the address `bind` and VELA_AUTHENTICATION is `none`.

        Other machines can then use the broker without credentials. Raises SettingInvalid if they can reach the address
        and VELA_AUTHENTICATION is not set.
        """
        if self.asks_for_credentials or _is_loopback(bind):
            return False
        if not self.authentication:
            raise SettingInvalid(
                f"VELA_BIND is {bind}, so other machines can reach the broker, and VELA_AUTHENTICATION is not set: set"
                " it to token, or to none if everybody in that network may do everything"
            )
        return True


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind.lower() == "localhost"
