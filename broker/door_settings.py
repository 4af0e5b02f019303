"""Settings of network ports, and limits on connections and requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import PlainValidator

from broker.environment import Between, SettingInvalid, Variable
from broker.login_settings import LoginSettings

__all__ = ["DoorSettings"]

_OFF: Final = "off"
_DOORS: Final = ("pulsar", "http", "console")
_DOOR_PORTS: Final = {
    f"{door}_{kind}": f"VELA_{door}_{kind}".upper() for door in _DOORS for kind in ("port", "tls_port")
}


def _port(text: str, least: int) -> int | None:
    if text.lower() == _OFF:
        return None
    if not (text.isdecimal() and text.isascii() and least <= int(text) <= 65535):
        raise ValueError(f"it takes a number from {least} to 65535, or {_OFF}")
    return int(text)


_Port = Annotated[int | None, PlainValidator(partial(_port, least=0))]
"""A TCP port. With 0, the operating system chooses a port. None means off."""
_FixedPort = Annotated[int | None, PlainValidator(partial(_port, least=1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings(LoginSettings):
    """Settings of ports, certificates and limits."""

    http_port: Annotated[
        _Port, Variable("VELA_HTTP_PORT", "TCP port", "WebSocket, pulls, metrics and probes")
    ] = 8080
    console_port: Annotated[
        _FixedPort, Variable("VELA_CONSOLE_PORT", "TCP port", "the console, in its own process")
    ] = 8000
    pulsar_port: Annotated[_Port, Variable("VELA_PULSAR_PORT", "TCP port", "Pulsar's binary protocol")] = 6650
    http_tls_port: Annotated[
        _Port, Variable("VELA_HTTP_TLS_PORT", "TCP port", "the same as VELA_HTTP_PORT, with TLS")
    ] = 8443
    console_tls_port: Annotated[
        _FixedPort, Variable("VELA_CONSOLE_TLS_PORT", "TCP port", "the console with TLS")
    ] = 8001
    pulsar_tls_port: Annotated[
        _Port, Variable("VELA_PULSAR_TLS_PORT", "TCP port", "Pulsar's binary protocol with TLS")
    ] = 6651
    tls_certificate_file: Annotated[
        Path | None,
        Variable("VELA_TLS_CERTIFICATE_FILE", "file", "the certificate of all ports with TLS, and its chain"),
    ] = None
    tls_key_file: Annotated[
        Path | None, Variable("VELA_TLS_KEY_FILE", "file", "the private key of the ports' certificate")
    ] = None
    tls_trust_file: Annotated[
        Path | None,
        Variable("VELA_TLS_TRUST_FILE", "file", "the authorities that sign certificates of clients"),
    ] = None
    tls_require_client_certificate: Annotated[
        bool,
        Variable(
            "VELA_TLS_REQUIRE_CLIENT_CERTIFICATE", "switch", "clients without a certificate are refused"
        ),
    ] = False
    tls_min_version: Annotated[
        Literal["1.2", "1.3"],
        Variable("VELA_TLS_MIN_VERSION", "`1.2`, `1.3`", "the oldest TLS version that clients may use"),
    ] = "1.2"
    client_trust_file: Annotated[
        Path | None,
        Variable(
            "VELA_CLIENT_TRUST_FILE", "file", "the authorities that handlers trust; unset: the system's"
        ),
    ] = None
    client_certificate_file: Annotated[
        Path | None,
        Variable("VELA_CLIENT_CERTIFICATE_FILE", "file", "the certificate that handlers show to the broker"),
    ] = None
    client_key_file: Annotated[
        Path | None, Variable("VELA_CLIENT_KEY_FILE", "file", "the private key of the handlers' certificate")
    ] = None
    handshake_timeout_s: Annotated[
        int,
        Between(1, 600),
        Variable("VELA_HANDSHAKE_TIMEOUT_S", "s", "from a connection's start to its first request"),
    ] = 10
    http_request_timeout_s: Annotated[
        int,
        Between(1, 3600),
        Variable("VELA_HTTP_REQUEST_TIMEOUT_S", "s", "from a request's first byte to its last"),
    ] = 30
    http_idle_timeout_s: Annotated[
        int,
        Between(1, 3600),
        Variable(
            "VELA_HTTP_IDLE_TIMEOUT_S", "s", "an HTTP connection without a request for this time is closed"
        ),
    ] = 60
    max_connections: Annotated[
        int,
        Between(0),
        Variable("VELA_MAX_CONNECTIONS", "connections", "connections of one process; 0: no limit"),
    ] = 20_000
    max_connections_per_address: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_CONNECTIONS_PER_ADDRESS", "connections", "connections from one address; 0: no limit"
        ),
    ] = 0
    max_websockets: Annotated[
        int,
        Between(0),
        Variable("VELA_MAX_WEBSOCKETS", "connections", "WebSockets of one process; 0: no limit"),
    ] = 10_000
    max_producers_per_connection: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_PRODUCERS_PER_CONNECTION",
            "producers",
            "producers that one connection may open; 0: no limit",
        ),
    ] = 20_000
    max_consumers_per_connection: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_CONSUMERS_PER_CONNECTION",
            "consumers",
            "consumers that one connection may open; 0: no limit",
        ),
    ] = 20_000
    max_topic_watchers_per_connection: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_TOPIC_WATCHERS_PER_CONNECTION",
            "watchers",
            "topic lists that one connection may watch; 0: no limit",
        ),
    ] = 1000
    max_lookups_per_connection: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_LOOKUPS_PER_CONNECTION", "lookups", "unanswered lookups of a connection; 0: no limit"
        ),
    ] = 1000

    connection_request_rate: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_CONNECTION_REQUEST_RATE", "requests/s", "requests that one connection may send; 0: no limit"
        ),
    ] = 5000
    http_request_rate: Annotated[
        int,
        Between(0),
        Variable("VELA_HTTP_REQUEST_RATE", "requests/s", "HTTP requests of one connection; 0: no limit"),
    ] = 5000
    http_request_rate_per_address: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_HTTP_REQUEST_RATE_PER_ADDRESS", "requests/s", "HTTP requests of one address; 0: no limit"
        ),
    ] = 0
    http_request_rate_per_role: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_HTTP_REQUEST_RATE_PER_ROLE",
            "requests/s",
            "HTTP requests of one role, or user of /api/v1; 0: no limit",
        ),
    ] = 0
    websocket_message_rate: Annotated[
        int,
        Between(0),
        Variable("VELA_WEBSOCKET_MESSAGE_RATE", "messages/s", "JSON messages of one WebSocket; 0: no limit"),
    ] = 0
    websocket_message_rate_per_address: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_WEBSOCKET_MESSAGE_RATE_PER_ADDRESS",
            "messages/s",
            "JSON messages over all WebSockets of one address; 0: no limit",
        ),
    ] = 0
    websocket_message_rate_per_role: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_WEBSOCKET_MESSAGE_RATE_PER_ROLE",
            "messages/s",
            "JSON messages over all WebSockets of one role; 0: no limit",
        ),
    ] = 0
    websocket_byte_rate: Annotated[
        int,
        Between(0),
        Variable("VELA_WEBSOCKET_BYTE_RATE", "bytes/s", "bytes that one WebSocket may send; 0: no limit"),
    ] = 0
    websocket_byte_rate_per_address: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_WEBSOCKET_BYTE_RATE_PER_ADDRESS",
            "bytes/s",
            "bytes that all WebSockets of one address may send; 0: no limit",
        ),
    ] = 0
    websocket_byte_rate_per_role: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_WEBSOCKET_BYTE_RATE_PER_ROLE",
            "bytes/s",
            "bytes that all WebSockets of one role may send; 0: no limit",
        ),
    ] = 0

    @property
    def has_tls(self) -> bool:
        """Whether a certificate is set."""
        return self.tls_certificate_file is not None

    @property
    def open_ports(self) -> dict[str, int]:
        """The ports that the broker and the console listen on. The keys are environment variables."""
        found = {}
        for field, variable in _DOOR_PORTS.items():
            port = getattr(self, field)
            if port is not None and (self.has_tls or not field.endswith("tls_port")):
                found[variable] = port
        return found

    @property
    def broker_probe(self) -> tuple[int, bool]:
        """The port at which the broker answers /readyz, and whether the port has TLS."""
        return _probe(self.http_port, self.http_tls_port)

    @property
    def console_probe(self) -> tuple[int, bool]:
        """The port at which the console answers /readyz, and whether the port has TLS."""
        return _probe(self.console_port, self.console_tls_port)

    def check_together(self) -> None:
        """Raise SettingInvalid if settings contradict each other."""
        LoginSettings.check_together(self)  # slots=True breaks super() without arguments
        if self.has_tls != (self.tls_key_file is not None):
            raise SettingInvalid("VELA_TLS_CERTIFICATE_FILE and VELA_TLS_KEY_FILE need each other: set both")
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise SettingInvalid(
                "VELA_CLIENT_CERTIFICATE_FILE and VELA_CLIENT_KEY_FILE need each other: set both"
            )
        if not self.has_tls and self.tls_trust_file is not None:
            raise SettingInvalid("VELA_TLS_TRUST_FILE needs VELA_TLS_CERTIFICATE_FILE and VELA_TLS_KEY_FILE")
        if self.tls_require_client_certificate and self.tls_trust_file is None:
            raise SettingInvalid(
                "VELA_TLS_REQUIRE_CLIENT_CERTIFICATE is 1: set VELA_TLS_TRUST_FILE to the authorities that sign the"
                " certificates of clients"
            )
        for door in _DOORS:
            plain, tls = f"VELA_{door.upper()}_PORT", f"VELA_{door.upper()}_TLS_PORT"
            if not self.open_ports.keys() & {plain, tls}:
                raise SettingInvalid(f"{plain} is off: set {tls} and VELA_TLS_CERTIFICATE_FILE")


def _probe(plain: int | None, tls: int | None) -> tuple[int, bool]:
    if plain is not None:
        return plain, False
    if tls is None:
        raise AssertionError("check_together refuses a process without a port")
    return tls, True
