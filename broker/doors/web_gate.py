"""The check of `Host` and `Origin` in requests to the broker's HTTP port.

Without authentication, a web page could use the broker through the browser of a person in the broker's network. The
page cannot change `Origin`, `Sec-Fetch-Site` or `Host`. If an attacker's domain resolves to the broker's address,
`Host` still names that domain.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, Final

from broker.core.web_origin import Origin, parse_host, parse_origin
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.middleware import CheckingMiddleware

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.doors.asgi import Application, Scope

__all__ = ["HostAndOrigin", "WebGate"]

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OWN_SITES: Final = (b"same-origin", b"none")  # Browsers send "none" when a person types the address
_REMEMBERED: Final = 1024
_LONGEST_HOST: Final = 300
_SHOWN: Final = 100


class WebGate:
    """Decides by `Host` and `Origin` whether the broker accepts a request."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._hosts = _LOOPBACK | settings.own_hosts | settings.allowed_hosts
        self._suffixes = tuple(host for host in settings.allowed_hosts if host.startswith("."))
        self._origins = settings.allowed_origins
        self._knows = functools.lru_cache(_REMEMBERED)(self._knows_host)

    def takes_host(self, host: bytes, local_address: str) -> bool:
        """Return whether the gate accepts this `Host` on a connection to `local_address`."""
        return len(host) <= _LONGEST_HOST and self._knows(host, local_address)

    def _knows_host(self, host: bytes, local_address: str) -> bool:
        parsed = parse_host(host.decode("latin-1"))
        if parsed is None:
            return False
        name, _ = parsed
        return (
            name in self._hosts
            or "*" in self._hosts
            or f".{name}".endswith(self._suffixes)
            or _same_address(name, local_address)
        )

    def check(self, scope: Scope) -> None:
        """Check the headers of a request or handshake. Raises HandshakeRefused."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1 or not (hosts or scope.get("http_version") == "1.0"):
            raise HandshakeRefused(400, "the request needs exactly one Host header")
        local_address = scope["server"][0] if scope.get("server") else ""
        if hosts and not self.takes_host(hosts[0], local_address):
            raise HandshakeRefused(
                421,
                f"the broker does not answer to the host {_shown(hosts[0])}; if it is the broker's own name, "
                "add it to VELA_ALLOWED_HOSTS",
            )
        own = _own_origin(scope, hosts[0]) if hosts else None
        origins = [value for name, value in headers if name == b"origin"]
        for origin in origins:
            parsed = parse_origin(origin.decode("latin-1"))
            if parsed is None or (parsed != own and parsed not in self._origins):
                raise _foreign(f"pages of {_shown(origin)} may not send requests to the broker")
        if not origins:
            # Browsers send no Origin for images and links. Sec-Fetch-Site says whether the page belongs to the broker.
            sites = [value for name, value in headers if name == b"sec-fetch-site"]
            if any(site not in _OWN_SITES for site in sites):
                raise _foreign("pages of another origin may not send requests to the broker")


class HostAndOrigin(CheckingMiddleware):
    """Passes on the requests and handshakes that the gate accepts."""

    def __init__(self, inner: Application, *, gate: WebGate) -> None:
        super().__init__(inner)
        self._gate = gate

    def check(self, scope: Scope) -> None:
        self._gate.check(scope)


def _foreign(what: str) -> HandshakeRefused:
    return HandshakeRefused(403, f"{what}; to allow them, add their origin to VELA_ALLOWED_ORIGINS")


def _own_origin(scope: Scope, host: bytes) -> Origin | None:
    scheme = "https" if scope.get("scheme") in ("https", "wss") else "http"
    return parse_origin(f"{scheme}://{host.decode('latin-1')}")


def _same_address(host: str, local_address: str) -> bool:
    try:
        return _address(host.strip("[]")) == _address(local_address)
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def _shown(value: bytes) -> str:
    return repr(value.decode("latin-1")[:_SHOWN])
