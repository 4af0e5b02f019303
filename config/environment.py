"""The settings of a checkout or an image of Vela: the broker's, and those of Django, Celery and `make run`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator

from broker.conf import BrokerSettings, SettingInvalid
from broker.environment import Between, Names, Variable
from config.log_lines import LogFormat

__all__ = [
    "PROJECT_DIR",
    "ProjectSettings",
    "SettingInvalid",
    "database_options",
    "database_parts",
    "email_parts",
    "libpq_option",
    "project_settings",
]

PROJECT_DIR = Path(__file__).resolve().parent.parent
# The default for root: PostgreSQL then runs as a system user, who must be able to reach the folder.
SYSTEM_DATA_DIR = Path("/var/lib/vela")


DATABASE_URL_SHAPE = "postgresql://user:password@host:port/name"


def database_parts(url: str) -> dict[str, str]:
    """Split a postgresql:// URL into keys of Django's DATABASES. Raises SettingInvalid, whose text has no password."""
    try:
        parts = urlsplit(_usable(url))
    except ValueError as error:
        raise SettingInvalid(f"DATABASE_URL cannot be used: {error}") from None
    return {
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
    }


def database_options(url: str) -> dict[str, str]:
    """Return libpq's parameters, such as sslmode, from the part of the URL after its question mark."""
    return dict(parse_qsl(urlsplit(url).query))


def libpq_option(value: str) -> str:
    """Return a value for libpq's `options`, where a backslash escapes each space and backslash."""
    return re.sub(r"([\\\s])", r"\\\1", value)


# Python's own error would quote a part of a password that contains a slash.
_UNREADABLE = "and in this one the host or port is wrong, or the password has a / that is not written as %2F"


def _usable(url: str) -> str:
    takes = f"it takes {DATABASE_URL_SHAPE}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(f"{takes}, {_UNREADABLE}") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"{takes}, and this one begins with {parts.scheme or 'no scheme'!r}")
    if not parts.path.strip("/"):
        raise ValueError(f"{takes}, and this one names no database")
    return url


SMTP_SHAPE = "smtp://, smtp+tls:// (STARTTLS) or smtps://, then user:password@host:port"
_SMTP_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


def _smtp_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(f"it takes {SMTP_SHAPE}, {_UNREADABLE}") from None
    if parts.scheme not in _SMTP_PORTS or not parts.hostname:
        raise ValueError(f"it takes {SMTP_SHAPE}")
    return url


def email_parts(url: str) -> dict[str, Any]:
    """Split VELA_SMTP_URL into Django's e-mail settings. Return no settings for an empty URL."""
    if not url:
        return {}
    parts = urlsplit(url)
    return {
        "EMAIL_HOST": parts.hostname or "",
        "EMAIL_PORT": parts.port or _SMTP_PORTS[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
        "EMAIL_USE_SSL": parts.scheme == "smtps",
    }


def _default_data_dir() -> Path:
    return SYSTEM_DATA_DIR if os.geteuid() == 0 else PROJECT_DIR / ".vela"


def _upper(text: Any) -> Any:
    return text.upper() if isinstance(text, str) else text


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


def _with_schemes(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        scheme, separator, host = origin.partition("://")
        if scheme not in ("http", "https") or not separator or not host:
            raise ValueError(f"it takes https://host:port, separated by commas, which {origin!r} is not")
    return origins


def _celery_url(text: str) -> str:
    scheme, separator, _ = text.partition("://")
    if not scheme or not separator:
        raise ValueError("it takes a URL with a scheme, such as redis://host:6379/0")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings(BrokerSettings):
    """All settings that a checkout or an image of Vela reads from the environment."""

    data_dir: Annotated[
        Path,
        AfterValidator(lambda folder: folder.expanduser().absolute()),
        Variable("VELA_DATA_DIR", "folder", "the folder for everything that Vela keeps on disk"),
    ] = field(default_factory=_default_data_dir)
    database_url: Annotated[
        str,
        AfterValidator(_usable),
        Variable("DATABASE_URL", "URL", "your own PostgreSQL; unset: the embedded server", is_secret=True),
    ] = field(default="", repr=False)
    pg_port: Annotated[
        int,
        Between(1, 65535),
        Variable("VELA_PG_PORT", "TCP port", "the port of the embedded PostgreSQL"),
    ] = 54329
    celery_broker_url: Annotated[
        str,
        AfterValidator(_celery_url),
        Variable(
            "VELA_CELERY_BROKER_URL",
            "URL",
            "Celery's own broker; unset: tables in the same PostgreSQL",
            is_secret=True,
        ),
    ] = field(default="", repr=False)
    secret_key: Annotated[
        str,
        Variable(
            "VELA_SECRET_KEY",
            "text",
            "Django's secret key; unset: the key in the data folder",
            is_secret=True,
        ),
    ] = field(default="", repr=False)
    csrf_trusted_origins: Annotated[
        Names,
        AfterValidator(_with_schemes),
        Variable(
            "VELA_CSRF_TRUSTED_ORIGINS", "origins, separated by commas", "needed if a proxy changes the host"
        ),
    ] = ()
    smtp_url: Annotated[
        str,
        AfterValidator(_smtp_url),
        Variable("VELA_SMTP_URL", "URL", "the mail server that alerts use", is_secret=True),
    ] = field(default="", repr=False)
    mail_from: Annotated[str, Variable("VELA_MAIL_FROM", "address", "the sender of alerts by e-mail")] = (
        "vela@localhost"
    )
    proxy_count: Annotated[
        int, Between(0, 10), Variable("VELA_PROXY_COUNT", "proxies", "proxies that add to X-Forwarded-For")
    ] = 0
    https: Annotated[bool, Variable("VELA_HTTPS", "switch", "whether a proxy ends TLS")] = False
    debug: Annotated[bool, Variable("VELA_DEBUG", "switch", "Django's debug pages")] = False
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
        BeforeValidator(_upper),
        Variable("VELA_LOG_LEVEL", "level", "the level of the root logger"),
    ] = "INFO"
    log_format: Annotated[
        LogFormat,
        BeforeValidator(_lower),
        Variable("VELA_LOG_FORMAT", "text or json", "the format of every process's log"),
    ] = "text"
    stop_timeout_s: Annotated[
        int, Between(1, 3600), Variable("VELA_STOP_TIMEOUT_S", "s", "how long a complete stop may take")
    ] = 25
    ready_file: Annotated[
        Path | None, Variable("VELA_READY_FILE", "file", "a worker or beat makes this file when it is up")
    ] = None

    @property
    def database_address(self) -> str:
        """DATABASE_URL, or the address of the embedded server, which `make run` stores in the data folder.

        If neither exists yet, for example during type checking or the build of an image, this is the address of the
        embedded server without a password. Nothing connects to a database at that time.
        """
        if self.database_url:
            return self.database_url
        try:
            return (self.data_dir / "database-url").read_text(encoding="utf-8").strip()
        except OSError:
            return f"postgresql://vela@127.0.0.1:{self.pg_port}/vela"

    @property
    def embedded_database_dir(self) -> Path | None:
        """The folder on whose disk the embedded server keeps its data; None if Vela uses another server."""
        try:
            embedded = (self.data_dir / "database-url").read_text(encoding="utf-8").strip()
        except OSError:
            return None
        return self.data_dir if embedded == self.database_address else None


@cache
def project_settings() -> ProjectSettings:
    """Return the settings of this process, from its environment. Raises SettingInvalid."""
    return ProjectSettings.from_environment(os.environ)
