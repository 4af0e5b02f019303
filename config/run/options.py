"""The settings of `make run`, checked before anything starts."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.conf import EXIT_SETTING_INVALID
from config.environment import ProjectSettings, SettingInvalid
from config.log_lines import LogFormat
from config.run.errors import StartRefused

__all__ = ["Options", "refuse_exposure", "refuse_taken_ports"]

_BROKER_PORTS = ("VELA_HTTP_PORT", "VELA_PULSAR_PORT", "VELA_HTTP_TLS_PORT", "VELA_PULSAR_TLS_PORT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run's settings."""

    data_dir: Path  # everything Vela keeps on disk
    database_url: str  # the user's own server; empty = the embedded one
    bind: str  # the address on which broker and console listen
    local_host: str  # the host by which this machine reaches broker and console, as written in a URL
    door_ports: Mapping[str, int]  # ports of broker and console, by the name of the setting
    console_probe: tuple[int, bool]  # the port that is asked for /readyz, and whether it has TLS
    broker_probe: tuple[int, bool]
    pg_port: int  # the port of the embedded server, which always listens on 127.0.0.1
    advertised_url: str  # pulsar:// or pulsar+ssl://, then host:port: the URL that clients are told
    advertised_tls_url: str  # pulsar+ssl://host:port: the URL that clients with TLS are told
    admin_password: str  # empty = a random one, shown once
    log_format: LogFormat  # of the lines that the supervisor prints
    stop_timeout_s: int  # how long a complete stop may take, including PostgreSQL's

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Options:
        """Read and check all settings. Raises StartRefused, whose text names each wrong setting."""
        # Port 0 lets the system choose a port, which is allowed only for a broker that is started alone.
        zero = [name for name in _BROKER_PORTS if environment.get(name) == "0"]
        complaints = [f"{name} is 0: it takes a number from 1 to 65535" for name in zero]
        try:
            settings = ProjectSettings.from_environment(environment)
        except SettingInvalid as error:
            complaints.insert(0, str(error))
        if complaints:
            raise StartRefused("\n".join(complaints), exit_code=EXIT_SETTING_INVALID)
        return cls(
            data_dir=settings.data_dir,
            database_url=settings.database_url,
            bind=settings.bind,
            local_host=settings.local_host,
            door_ports=settings.open_ports,
            console_probe=settings.console_probe,
            broker_probe=settings.broker_probe,
            pg_port=settings.pg_port,
            advertised_url=settings.advertised_url,
            advertised_tls_url=settings.advertised_tls_url,
            admin_password=settings.admin_password,
            log_format=settings.log_format,
            stop_timeout_s=settings.stop_timeout_s,
        )

    @property
    def ports(self) -> dict[str, tuple[str, int]]:
        """Every address that Vela will listen on, by the setting that names its port."""
        doors = {setting: (self.bind, port) for setting, port in self.door_ports.items()}
        return doors if self.database_url else {**doors, "VELA_PG_PORT": ("127.0.0.1", self.pg_port)}


def refuse_exposure(environment: Mapping[str, str]) -> None:
    """Raise StartRefused if other machines could reach a broker that asks no client for credentials.

    The broker itself would also refuse to start, but only after a database has been created for it. `Options` does not
    check this, because it also serves processes in separate containers, which need no VELA_AUTHENTICATION.
    """
    try:
        settings = ProjectSettings.from_environment(environment)
        settings.check_exposure(settings.bind)
    except SettingInvalid as error:
        raise StartRefused(str(error), exit_code=EXIT_SETTING_INVALID) from None


def refuse_taken_ports(ports: dict[str, tuple[str, int]]) -> None:
    """Raise StartRefused with a line for each port that something else listens on, or that two settings share.

    A port that is only taken may be free at the next start, so it has another exit code than a wrong setting.
    """
    complaints, is_wrong = [], False
    seen: dict[int, str] = {}
    for setting, (host, port) in ports.items():
        if port in seen:
            complaints.append(f"{setting} and {seen[port]} are both {port}: give them different ports")
            is_wrong = True
            continue
        seen[port] = setting
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError as error:
                is_wrong |= error.errno != errno.EADDRINUSE
                complaints.append(
                    f"Port {port} on {host} cannot be used ({error.strerror}): "
                    f"set {setting} to a free one, or VELA_BIND if the address is wrong"
                )
    if complaints:
        raise StartRefused("\n".join(complaints), exit_code=EXIT_SETTING_INVALID if is_wrong else 1)
