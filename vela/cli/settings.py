"""The addresses of the broker and the console, the user, and the files for TLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from vela.cli.errors import CliError, Exit

if TYPE_CHECKING:
    import ssl

__all__ = ["Settings", "TlsFiles", "settings"]


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
    tls: TlsFiles = TlsFiles()


def settings() -> Settings:
    """Return the settings of the current command."""
    found = click.get_current_context().find_object(Settings)
    if found is None:
        raise RuntimeError("a vela command must run below the root command")
    return found
