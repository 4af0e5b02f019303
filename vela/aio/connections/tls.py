"""The TLS settings of a client."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vela.errors import InvalidConfiguration

__all__ = ["TlsOptions", "why_tls_failed"]

_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)
"""OpenSSL's error reasons if the server's first bytes are not TLS."""
_WANTS_CERTIFICATE: Final = "TLSV13_ALERT_CERTIFICATE_REQUIRED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Which certificates the client trusts, and which certificate it presents."""

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


def why_tls_failed(error: ssl.SSLError) -> str:
    """Return why a TLS handshake failed, with advice for known reasons."""
    if error.reason == _WANTS_CERTIFICATE:
        return (
            "the server requires a client certificate: give tls_certificate_file_path and"
            " tls_private_key_file_path (vela: --tls-certificate-file and --tls-key-file)"
        )
    if error.reason not in _NO_TLS:
        return str(error)
    return (
        f"the server does not speak TLS ({error.reason}); the URL of a port without TLS begins with pulsar://, "
        "or with ws:// if it is a broker's HTTP port"
    )
