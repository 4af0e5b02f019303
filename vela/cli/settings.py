"""The addresses of the broker and the console, and the credentials: options, the environment, or a profile.

A profile is one word for all of them, in a file of the user:

    [shop]
    url = "wss://vela.example.org"
    console_url = "https://vela.example.org"
    token_file = "~/.config/vela/shop.token"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from vela.cli.errors import CliError, Exit

if TYPE_CHECKING:
    import ssl

__all__ = ["Settings", "TlsFiles", "settings", "settings_of"]

_TLS_NAMES: Final = ("tls_trust_file", "tls_certificate_file", "tls_key_file")
_NAMES: Final = ("url", "console_url", "user", "token_file", *_TLS_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files; "" = none."""

    trust: str = ""  # the only authorities to trust
    certificate: str = ""  # of this client
    key: str = ""

    def context(self) -> ssl.SSLContext | None:
        """Return a TLS context that checks the host's name, None = the default one. Raises CliError for a bad file."""
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
class Settings:
    """The options of the root command, or their values in the environment."""

    url: str  # of the broker: ws://, wss://, pulsar:// or pulsar+ssl://
    console_url: str  # of the console: http:// or https://
    user: str  # of the console; "" = none
    password: str
    token: str = ""  # for the broker; "" = none
    token_file: str = ""  # a file with the token; "" = none
    tls: TlsFiles = TlsFiles()


def settings() -> Settings:
    """Return the settings of the current command."""
    found = click.get_current_context().find_object(Settings)
    if found is None:
        raise RuntimeError("a vela command must run below the root command")
    return found


def _profiles_path() -> Path:
    """Return the file with the profiles, which need not exist."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "vela" / "profiles.toml"


def settings_of(context: click.Context) -> Settings:
    """Return the options of the root command, with those of the chosen profile and the password.

    An option on the command line wins over the profile, and the profile over the environment. Raises CliError if the
    profile does not exist or cannot be read.
    """
    options = _options_of(context.find_root())
    trust, certificate, key = (options.pop(name) for name in _TLS_NAMES)
    return Settings(
        **options,
        password=os.environ.get("VELA_PASSWORD", ""),
        tls=TlsFiles(trust=trust, certificate=certificate, key=key),
    )


def _options_of(root: click.Context) -> dict[str, str]:
    from click.core import ParameterSource

    options = {name: str(root.params.get(name) or "") for name in (*_NAMES, "token")}
    chosen = str(root.params.get("profile") or "")
    if not chosen:
        return options
    profile = _profile(chosen)
    typed = {name for name in options if root.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if "token_file" in profile and "token" not in typed:
        options["token"] = ""  # the environment's: the profile has its own
    return {**options, **{name: value for name, value in profile.items() if name not in typed}}


def _profile(name: str) -> dict[str, str]:
    path = _profiles_path()
    profiles = _read(path)
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise CliError(f"{path} has no profile {name!r}; it has {known}", Exit.USAGE, code="NoProfile")
    profile = profiles[name]
    if not isinstance(profile, Mapping) or any(not isinstance(each, str) for each in profile.values()):
        raise CliError(f"{path}: profile {name!r} takes texts", Exit.USAGE, code="InvalidProfile")
    if unknown := sorted(set(profile) - set(_NAMES)):
        raise CliError(
            f"{path}: profile {name!r} has {', '.join(unknown)}: use {', '.join(_NAMES)}",
            Exit.USAGE,
            code="InvalidProfile",
        )
    found = dict(profile)
    for file in found.keys() & {"token_file", *_TLS_NAMES}:
        found[file] = str(Path(found[file]).expanduser())
    return found


def _read(path: Path) -> Mapping[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(f"{path} cannot be read: {error}", Exit.USAGE, code="InvalidProfile") from None
