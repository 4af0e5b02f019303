"""Service URLs: pulsar://, pulsar+ssl://, ws:// and wss://, with one host or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from vela.errors import InvalidUrl

__all__ = ["BrokerAddress", "ServiceUrl", "is_host", "parse_broker_url", "parse_service_url"]

_EXAMPLES: Final = "write pulsar://host:6650, pulsar+ssl://host:6651, ws://host:8080 or wss://host"
_WEBSOCKET_PATH: Final = "/ws/binary"
_SCHEMES: Final = {  # scheme -> (encrypted, WebSocket, default port)
    "pulsar": (False, False, 6650),
    "pulsar+ssl": (True, False, 6651),
    "ws": (False, True, 80),
    "wss": (True, True, 443),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The address of one broker."""

    host: str
    port: int
    tls: bool
    websocket_path: str | None = None  # None = TCP

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        if self.websocket_path is None:
            return f"{'pulsar+ssl' if self.tls else 'pulsar'}://{self}"
        return f"{'wss' if self.tls else 'ws'}://{self}{self.websocket_path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUrl:
    """The brokers that a client may ask. There is at least one."""

    addresses: tuple[BrokerAddress, ...]


def parse_service_url(text: str, *, use_tls: bool = False) -> ServiceUrl:
    """Read scheme://host[:port][,host[:port]…][/path].

    The path is for WebSocket URLs behind a reverse proxy; /ws/binary is added if missing. `use_tls` encrypts even if
    the scheme does not say so. Raises InvalidUrl.
    """
    if not isinstance(text, str):
        raise InvalidUrl(f"service_url must be a string, not {text!r}: {_EXAMPLES}")
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        raise InvalidUrl(f"{text!r} is not a service URL: {_EXAMPLES}")
    encrypted, websocket, port = _SCHEMES[scheme.lower()]
    hosts, slash, path = rest.partition("/")
    if not websocket and path:
        raise InvalidUrl(f"{text!r} has a path, which {scheme}:// URLs do not take: {_EXAMPLES}")
    if "?" in rest or "#" in rest:
        raise InvalidUrl(f"{text!r} has a ? or a #, which service URLs do not take: {_EXAMPLES}")
    return ServiceUrl(
        addresses=tuple(
            _address(
                host, text, port, encrypted or use_tls, _websocket_path(slash + path) if websocket else None
            )
            for host in hosts.split(",")
        )
    )


def parse_broker_url(text: str) -> BrokerAddress:
    """Read the single address that a LOOKUP_RESPONSE names. Raises InvalidUrl."""
    addresses = parse_service_url(text).addresses
    if len(addresses) != 1:
        raise InvalidUrl(f"{text!r} names several hosts where one broker is meant")
    return addresses[0]


def is_host(text: str) -> bool:
    """Return whether the text can be looked up as a host.

    For some other texts, a lookup in Python raises UnicodeError, which is not an OSError.
    """
    try:
        text.encode("idna")
    except UnicodeError:  # a part between dots is empty or too long
        return False
    return bool(text) and min(text) > " "


def _websocket_path(path: str) -> str:
    path = path.rstrip("/")
    return path if path.endswith(_WEBSOCKET_PATH) else path + _WEBSOCKET_PATH


def _address(
    host_and_port: str, text: str, default_port: int, tls: bool, websocket_path: str | None
) -> BrokerAddress:
    try:
        parts = urlsplit(f"//{host_and_port.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or not is_host(host) or port == 0 or "@" in host_and_port:
        raise InvalidUrl(f"{text!r}: {host_and_port!r} is not host or host:port: {_EXAMPLES}")
    return BrokerAddress(
        host=host, port=default_port if port is None else port, tls=tls, websocket_path=websocket_path
    )
