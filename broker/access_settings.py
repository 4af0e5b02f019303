"""The settings of who may use the broker's doors. They are part of BrokerSettings."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from pydantic import PlainValidator

from broker.door_settings import DoorSettings
from broker.environment import Names, SettingInvalid, Variable, listed

__all__ = ["AccessSettings"]

NO_AUTHENTICATION: Final = "none"
_METHODS: Final = ("token", "tls")


def _methods(text: str) -> tuple[str, ...]:
    methods = listed(text.lower())
    if methods != (NO_AUTHENTICATION,) and not set(methods) <= set(_METHODS):
        raise ValueError(f"it takes {' and '.join(_METHODS)}, separated by commas, or none")
    return methods


def _files(text: str) -> tuple[Path, ...]:
    return tuple(Path(each) for each in listed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings(DoorSettings):
    """How clients prove who they are, and which roles may do everything."""

    authentication: Annotated[
        tuple[str, ...],
        PlainValidator(_methods),
        Variable(
            "VELA_AUTHENTICATION",
            "`token`, `tls`, by commas; `none`",
            "how clients prove who they are",
        ),
    ] = ()
    token_secret_key: Annotated[
        Names,
        Variable("VELA_TOKEN_SECRET_KEY", "base64, by commas", "secret keys of tokens", is_secret=True),
    ] = field(default=(), repr=False)
    token_secret_key_file: Annotated[
        tuple[Path, ...],
        PlainValidator(_files),
        Variable("VELA_TOKEN_SECRET_KEY_FILE", "files, by commas", "files with secret keys of tokens"),
    ] = ()
    token_public_key: Annotated[
        Names,
        Variable("VELA_TOKEN_PUBLIC_KEY", "base64, by commas", "public keys of tokens, RSA or EC"),
    ] = ()
    token_public_key_file: Annotated[
        tuple[Path, ...],
        PlainValidator(_files),
        Variable("VELA_TOKEN_PUBLIC_KEY_FILE", "files, by commas", "files with public keys of tokens"),
    ] = ()
    token_role_claim: Annotated[
        str, Variable("VELA_TOKEN_ROLE_CLAIM", "name", "the claim of a token that has the role")
    ] = "sub"  # noqa: S105 - the name of a claim
    token_audience: Annotated[
        str, Variable("VELA_TOKEN_AUDIENCE", "text", "the audience that tokens must be for")
    ] = ""
    superuser_roles: Annotated[
        Names, Variable("VELA_SUPERUSER_ROLES", "roles, by commas", "roles that may do everything")
    ] = ()
    anonymous_role: Annotated[
        str, Variable("VELA_ANONYMOUS_ROLE", "role", "the role of clients without credentials")
    ] = ""
    client_token: Annotated[
        str,
        Variable("VELA_TOKEN", "text", "the token with which handlers and jobs connect", is_secret=True),
    ] = field(default="", repr=False)
    client_token_file: Annotated[str, Variable("VELA_TOKEN_FILE", "file", "the file with that token")] = ""
    metrics_roles: Annotated[
        Names,
        Variable("VELA_METRICS_ROLES", "roles, by commas; `*`", "roles that may read /metrics"),
    ] = ()

    @property
    def asks_for_credentials(self) -> bool:
        """Whether the broker authenticates its clients."""
        return self.authentication not in ((), (NO_AUTHENTICATION,))

    def check_access(self) -> None:
        """Raise SettingInvalid for settings of access that do not go together."""
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

    def check_exposure(self, bind: str) -> bool:
        """Return whether `bind` is open to other machines on purpose, without authentication.

        Raises SettingInvalid if it is open and VELA_AUTHENTICATION says nothing.
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
