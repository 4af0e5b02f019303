"""The TLS settings of a client."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from vela.errors import InvalidConfiguration

__all__ = ["TlsOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Which certificates the client trusts, and its own."""

    trust_certs_file_path: str | None = None  # PEM file with trusted certificates; None or "" = the system's
    allow_insecure_connection: bool = False  # accept any certificate
    validate_hostname: bool = False  # the certificate must name the host
    certificate_file_path: str | None = None  # PEM file of the client's certificate
    private_key_file_path: str | None = None  # PEM file of its private key

    def context(self) -> ssl.SSLContext:
        """Return a TLS context. Raises InvalidConfiguration if a file cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.validate_hostname and not self.allow_insecure_connection
        if self.allow_insecure_connection:
            context.verify_mode = ssl.CERT_NONE
        elif self.trust_certs_file_path:
            _load(
                "tls_trust_certs_file_path", lambda: context.load_verify_locations(self.trust_certs_file_path)
            )
        else:
            context.load_default_certs()
        if bool(self.certificate_file_path) != bool(self.private_key_file_path):
            raise InvalidConfiguration(
                "give tls_certificate_file_path and tls_private_key_file_path together, or neither"
            )
        if certificate := self.certificate_file_path:
            _load(
                "tls_certificate_file_path and tls_private_key_file_path",
                lambda: context.load_cert_chain(certificate, self.private_key_file_path),
            )
        return context


def _load(names: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfiguration(f"{names}: {error}") from error
