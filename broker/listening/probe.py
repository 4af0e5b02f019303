"""Ask a process on this machine whether it is ready."""

from __future__ import annotations

import http.client
import ssl
from typing import Final

__all__ = ["ask_ready"]

_TIMEOUT_S: Final = 3.0


def ask_ready(host: str, port: int, *, has_tls: bool) -> tuple[int, str]:
    """Return the status of GET /readyz and the beginning of the body. Raises OSError or HTTPException on failure.

    A process that demands a client certificate counts as ready.
    """
    host = host.strip("[]")
    connection = (
        _with_tls(host, port) if has_tls else http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    )
    try:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        answer = connection.getresponse()
        return answer.status, answer.read(200).decode(errors="replace")
    except ssl.SSLError as error:
        if "CERTIFICATE_REQUIRED" in (error.reason or ""):
            return http.client.OK, ""
        raise
    finally:
        connection.close()


def _with_tls(host: str, port: int) -> http.client.HTTPSConnection:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate names the public host, not this address. The probe sends nothing confidential.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
