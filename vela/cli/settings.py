"""The addresses of the broker and the console, and the credentials: options, the environment, or a profile.

A profile stores all of them under one name (see `vela.cli.profiles.file`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from vela.cli.errors import CliError, Exit
from vela.cli.profiles.file import NAMES, OAUTH2_NAMES, TLS_NAMES, profile, used_profile

if TYPE_CHECKING:
    import ssl

__all__ = ["OAuth2", "Settings", "TlsFiles", "settings", "settings_of", "without_credentials"]

# These options are taken together from one source. A key file belongs to its issuer: if the issuer came from another
# source, the secret would go to the wrong server.
_CREDENTIALS: Final = frozenset({"token", "token_file", *OAUTH2_NAMES})


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files; "" = none."""

    trust: str = ""  # the only authorities to trust
    certificate: str = ""  # the certificate of this client
    key: str = ""

    def context(self) -> ssl.SSLContext | None:
        """Return a TLS context that checks the host's name; None = use the default. Raises CliError for a bad file."""
        if self == TlsFiles():
            return None
        from vela.aio.connections.tls import TlsOptions
        from vela.errors import InvalidConfiguration

        options = TlsOptions(
            trust_certs_file_path=self.trust,
            validate_hostname=True,
            certificate_file_path=self.certificate,
            private_key_file_path=self.key,
        )
        try:
            return options.context()
        except InvalidConfiguration as error:
            raise CliError(
                f"check --tls-trust-file, --tls-certificate-file and --tls-key-file: {error}", Exit.USAGE
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2:
    """How the command gets a token from an OAuth 2.0 server."""

    issuer_url: str = ""
    key_file: str = ""  # JSON with client_id and client_secret
    audience: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a command: options of the root command, or their values in the environment or a profile."""

    url: str  # of the broker: ws://, wss://, pulsar:// or pulsar+ssl://
    console_url: str  # of the console: http:// or https://
    user: str  # of the console; "" = none
    password: str
    token: str = ""  # for the broker and, without a user, for the console; "" = none
    token_file: str = ""  # a file with the token; "" = none
    tls: TlsFiles = TlsFiles()
    oauth2: OAuth2 = OAuth2()
    for_broker: bool = True  # False: the token must not go to the broker's address, as `_is_for` says
    for_console: bool = True  # the same for the console's address

    @property
    def uses_oauth2(self) -> bool:
        """Return whether to ask an OAuth 2.0 server for the token.

        If no token is given, an audience or a scope alone is enough, so that the error says what is missing.
        """
        if self.oauth2.issuer_url or self.oauth2.key_file:
            return True
        return self.oauth2 != OAuth2() and not (self.token or self.token_file)


def settings() -> Settings:
    """Return the settings of the current command. Raises the errors of `settings_of`.

    The settings are read when a command needs them, so that `vela profile` can replace a profile that cannot be read.
    """
    root = click.get_current_context().find_root()
    if root.obj is None:
        root.obj = settings_of(root)
    found: Settings = root.obj
    return found


def settings_of(context: click.Context) -> Settings:
    """Return the options of the root command, with those of a profile and the password.

    The first of these that sets an option wins: the command line, the profile that `--profile` or VELA_PROFILE chooses,
    the environment, the profile that `vela profile use` has chosen. Credentials go only to the servers that they are
    for: `_is_for` has the rule. Raises CliError if the profile does not exist or cannot be read.
    """
    options, sources = _options_of(context.find_root())
    trust, certificate, key = (options.pop(name) for name in TLS_NAMES)
    issuer, key_file, audience, scope = (options.pop(name) for name in OAUTH2_NAMES)
    credentials = next((sources[name] for name in _CREDENTIALS if name in sources), None)
    if not _is_for(sources.get("user"), sources.get("console_url")):
        options["user"] = ""  # without a user, VELA_PASSWORD is not sent
    return Settings(
        **options,
        password=os.environ.get("VELA_PASSWORD", ""),
        tls=TlsFiles(trust=trust, certificate=certificate, key=key),
        oauth2=OAuth2(issuer_url=issuer, key_file=key_file, audience=audience, scope=scope),
        for_broker=_is_for(credentials, sources.get("url")),
        for_console=_is_for(credentials, sources.get("console_url")),
    )


def without_credentials(url: str) -> str:
    """Return the address without a user name and password. It may be an invalid URL."""
    return re.sub(r"//[^/?#]*@", "//", url, count=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where a value comes from: the command line, a profile, or the environment."""

    name: str
    is_profile: bool = False
    # True for the command line, and for a profile that --profile or VELA_PROFILE chooses
    is_typed: bool = False
    names_address: bool = False  # True for a profile that has the address of the broker or of the console


def _is_for(credentials: _Source | None, address: _Source | None) -> bool:
    """Return whether credentials may go to an address. None: there are no credentials, or the address is the default.

    Credentials on the command line go to any address. Credentials from the environment never go to an address from a
    profile. Credentials from a profile with addresses go to these addresses, and to an address on the command line if
    the user chose the profile for this command.
    """
    if credentials is None or credentials in (address, _TYPED):
        return True
    if address is not None and address.is_profile:
        return False
    if not (credentials.is_profile and credentials.names_address):
        return True
    return credentials.is_typed and address == _TYPED


_TYPED: Final = _Source(name="the command line", is_typed=True)
_ENVIRONMENT: Final = _Source(name="the environment")


def _profile_source(fields: dict[str, str], *, is_typed: bool) -> _Source:
    return _Source(
        name="a chosen profile" if is_typed else "the profile in use",
        is_profile=True,
        is_typed=is_typed,
        names_address=not fields.keys().isdisjoint(("url", "console_url")),
    )


def _options_of(root: click.Context) -> tuple[dict[str, str], dict[str, _Source]]:
    """Return each option's value, and the source of those that are not defaults."""
    from click.core import ParameterSource

    def given(source: ParameterSource) -> dict[str, str]:
        return {
            name: str(root.params[name])
            for name in (*NAMES, "token")
            if root.get_parameter_source(name) is source and root.params[name]
        }

    chosen = str(root.params.get("profile") or "")
    used = "" if chosen else used_profile()
    of_profile = profile(chosen or used) if chosen or used else {}
    typed = (_TYPED, given(ParameterSource.COMMANDLINE))
    environment = (_ENVIRONMENT, given(ParameterSource.ENVIRONMENT))
    profiles = (_profile_source(of_profile, is_typed=bool(chosen)), of_profile)
    options: dict[str, str] = {}
    sources: dict[str, _Source] = {}
    for source, layer in (typed, profiles, environment) if chosen else (typed, environment, profiles):
        has_credentials = not _CREDENTIALS.isdisjoint(options)  # credentials from two sources do not mix
        for name, value in layer.items():
            if name not in options and not (has_credentials and name in _CREDENTIALS):
                options[name], sources[name] = value, source
    defaults = given(ParameterSource.DEFAULT)
    return {name: options.get(name, defaults.get(name, "")) for name in (*NAMES, "token")}, sources
