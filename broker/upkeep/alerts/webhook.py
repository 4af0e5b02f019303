"""Send JSON to a webhook, with time limits and without redirects."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = ["WebhookFailed", "post"]

_TIMEOUT_S: Final = 10.0


class WebhookFailed(Exception):
    """A notification was not delivered. The error's text omits the URL's path, which may be secret."""


def post(url: str, body: Mapping[str, Any], *, allows_local: bool, timeout_s: float = _TIMEOUT_S) -> None:
    """Send the body. Raises WebhookFailed unless the webhook answers with a status from 200 to 299.

    `allows_local` permits loopback, link-local, multicast and unspecified addresses. The connection attempt
    and the request may each take up to `timeout_s`.
    """
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host:
        raise WebhookFailed("the URL must begin with http:// or https://")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address(host, port, allows_local=allows_local)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        # Connect to the checked address, because a second lookup of the name could return another address.
        plain = socket.create_connection((address, port), timeout=timeout_s)
    except OSError as error:
        raise WebhookFailed(f"{host}:{port} does not answer: {error}") from None
    # The socket's timeout restarts at every received byte, so a timer limits the whole request.
    sockets = [plain]
    watchdog = threading.Timer(timeout_s, _cut, [sockets])
    watchdog.daemon = True
    watchdog.start()
    try:
        status = _exchange(sockets, parts.scheme == "https", host, port, path, body)
    except (OSError, HTTPException, ValueError) as error:
        raise WebhookFailed(f"{host}:{port} gave no answer: {error or type(error).__name__}") from None
    finally:
        watchdog.cancel()
        plain.close()
    if not 200 <= status <= 299:
        hint = "; redirects are not followed" if 300 <= status <= 399 else ""
        raise WebhookFailed(f"{host}:{port} answered with status {status}{hint}")


def _exchange(
    sockets: list[socket.socket], is_tls: bool, host: str, port: int, path: str, body: Mapping[str, Any]
) -> int:
    try:
        if is_tls:
            sockets.append(ssl.create_default_context().wrap_socket(sockets[0], server_hostname=host))
        connection = HTTPConnection(host, port)
        connection.sock = sockets[-1]
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "Vela", "Connection": "close"}
        connection.request("POST", path, body=data, headers=headers)
        return connection.getresponse().status
    finally:
        sockets[-1].close()


def _cut(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _address(host: str, port: int, *, allows_local: bool) -> str:
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise WebhookFailed(f"the host {host} was not found: {error}") from None
    for text in found:
        if not allows_local and _is_local(text):
            where = f"{host} is" if host == text else f"{host} is {text},"
            raise WebhookFailed(f"{where} a local address; VELA_ALERT_LOCAL_WEBHOOKS=1 allows it")
    return found[0]


def _is_local(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    return address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
