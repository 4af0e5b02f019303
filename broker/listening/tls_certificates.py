"""Load the certificate that all TLS ports use, and reload it when its files change.

Existing connections keep the old certificate.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import ssl
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cryptography import x509

from broker.core.access.credentials import ClientCertificate

if TYPE_CHECKING:
    from pathlib import Path

    from broker.door_settings import DoorSettings

__all__ = ["CertificateUnusable", "TlsCertificates", "client_certificate"]

logger = logging.getLogger(__name__)

CHECK_PERIOD_S: Final = 2.0
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class CertificateUnusable(Exception):
    """A TLS file is missing or unusable."""


class TlsCertificates:
    """The TLS context for new connections. Call `watch` and `stop` on the same event loop."""

    def __init__(self, settings: DoorSettings, *, asks_clients: bool) -> None:
        """Read the files. Raises CertificateUnusable if a file cannot be used.

        If `asks_clients` is true and a trust file is set, the TLS handshake asks the client for a certificate.
        """
        self._settings = settings
        self._asks_clients = asks_clients and settings.tls_trust_file is not None
        self._state = self._file_state()
        self._timer: asyncio.TimerHandle | None = None
        self.context, self._expires_at_s = self._read()
        self._log("is in use")

    @property
    def expires_s(self) -> float:
        """Seconds until the certificate expires; negative after that."""
        return self._expires_at_s - time.time()

    def watch(self) -> None:
        """Check the files regularly until `stop` is called."""
        self._timer = asyncio.get_running_loop().call_later(CHECK_PERIOD_S, self._check)

    def stop(self) -> None:
        """Stop checking the files. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reload_if_changed(self) -> None:
        """Load changed files. If loading fails, keep the old certificate and log the error."""
        state = self._file_state()
        if state == self._state:
            return
        self._state = state
        try:
            self.context, self._expires_at_s = self._read()
        except CertificateUnusable as error:
            logger.error("a changed TLS file cannot be used: %s", error)
            self._log("stays in use")
        else:
            self._log("is in use from now on")

    def _check(self) -> None:
        self.reload_if_changed()
        self.watch()

    def _files(self) -> tuple[Path | None, ...]:
        settings = self._settings
        return settings.tls_certificate_file, settings.tls_key_file, settings.tls_trust_file

    def _file_state(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_state_of(path) for path in self._files())

    def _read(self) -> tuple[ssl.SSLContext, float]:
        certificate, key, trust = self._files()
        if certificate is None or key is None:
            raise CertificateUnusable("set VELA_TLS_CERTIFICATE_FILE and VELA_TLS_KEY_FILE")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self._settings.tls_min_version]
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            context.load_cert_chain(certificate, key, password=_refuse_password)
            expires_at = x509.load_pem_x509_certificates(certificate.read_bytes())[0].not_valid_after_utc
        except (OSError, ValueError) as error:
            raise CertificateUnusable(
                f"cannot load the certificate and key: {_why(error)};"
                " set VELA_TLS_CERTIFICATE_FILE and VELA_TLS_KEY_FILE to a matching pair of PEM files"
            ) from None
        if self._asks_clients and trust is not None:
            try:
                context.load_verify_locations(trust)
            except (OSError, ValueError) as error:
                raise CertificateUnusable(
                    f"cannot load the trusted certificates: {_why(error)};"
                    " set VELA_TLS_TRUST_FILE to a PEM file with certificates"
                ) from None
            must = self._settings.tls_require_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if must else ssl.CERT_OPTIONAL
        return context, expires_at.timestamp()

    def _log(self, what: str) -> None:
        until = datetime.datetime.fromtimestamp(self._expires_at_s, datetime.UTC)
        logger.info("the TLS certificate that is valid until %s %s", until.isoformat(), what)


def client_certificate(peer_certificate: Mapping[str, object] | None) -> ClientCertificate | None:
    """Return the client's certificate from the result of `getpeercert()`.

    Returns None unless the certificate has exactly one common name.
    """
    if not peer_certificate:
        return None
    subject, ends = peer_certificate.get("subject", ()), peer_certificate["notAfter"]
    assert isinstance(subject, tuple)
    assert isinstance(ends, str)
    names = [value for part in subject for name, value in part if name == "commonName"]
    if len(names) != 1:
        return None
    return ClientCertificate(name=names[0], expires_ms=ssl.cert_time_to_seconds(ends) * 1000)


def _state_of(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        found = os.stat(path)  # A renewal often changes only symbolic links, which stat follows
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


def _refuse_password() -> str:
    # Without this callback, OpenSSL would ask for the password on the terminal.
    raise ValueError("the key is encrypted: store it without a password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__  # str(error) would show the path
    return str(error)
