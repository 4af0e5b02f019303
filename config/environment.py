"""Typed reading of the environment: every complaint names the setting and what it takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from broker.conf import SettingInvalid

__all__ = ["PROJECT_DIR", "Environment", "SettingInvalid", "database_options", "database_parts"]

PROJECT_DIR = Path(__file__).resolve().parent.parent
SYSTEM_DATA_DIR = Path(
    "/var/lib/vela"
)  # root's default: PostgreSQL then runs as a system user, who must reach it


class Environment:
    """The process's environment (or a test's). Each method raises SettingInvalid for a value that cannot work."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.variables: Mapping[str, str] = os.environ if variables is None else variables

    def text(self, name: str, default: str = "") -> str:
        """The variable, or the default where it is unset or empty."""
        return self.variables.get(name, "") or default

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A switch written 1 or 0."""
        raw = self.text(name).lower()
        if not raw:
            return default
        if raw in ("1", "true", "yes", "on"):
            return True
        if raw in ("0", "false", "no", "off"):
            return False
        raise SettingInvalid(f"{name} is {raw!r}: it takes 1 or 0")

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number between two bounds, both allowed."""
        raw = self.text(name)
        if not raw:
            return default
        try:
            value = int(raw)
        except ValueError:
            raise SettingInvalid(f"{name} is {raw!r}: it takes a whole number") from None
        if not least <= value <= most:
            raise SettingInvalid(f"{name} is {value}: it takes a number from {least} to {most}")
        return value

    def port(self, name: str, default: int) -> int:
        """A TCP port that something can listen on."""
        return self.integer(name, default, least=1, most=65535)

    def names(self, name: str, default: str = "") -> list[str]:
        """A list written with commas."""
        return [part.strip() for part in self.text(name, default).split(",") if part.strip()]

    def data_dir(self) -> Path:
        """VELA_DATA_DIR, else /var/lib/vela for root and .vela in the checkout for everyone else."""
        default = SYSTEM_DATA_DIR if os.geteuid() == 0 else PROJECT_DIR / ".vela"
        return Path(self.text("VELA_DATA_DIR", str(default))).expanduser().absolute()

    def database_url(self) -> str:
        """DATABASE_URL, else the address that the embedded server left in the data folder.

        Where neither is there yet (type checking, collectstatic at build) the embedded server's address without a
        password: nothing connects then.
        """
        if url := self.text("DATABASE_URL"):
            return url
        try:
            return (self.data_dir() / "database-url").read_text(encoding="utf-8").strip()
        except OSError:
            return f"postgresql://vela@127.0.0.1:{self.port('VELA_PG_PORT', 54329)}/vela"


def database_parts(url: str) -> dict[str, str]:
    """Split a postgresql:// URL into what Django's DATABASES takes. Raises SettingInvalid, without the password."""
    shape = "DATABASE_URL takes postgresql://user:password@host:port/name"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingInvalid(
            f"DATABASE_URL cannot be read ({error}): {shape.removeprefix('DATABASE_URL ')}"
        ) from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise SettingInvalid(f"{shape}, and this one begins with {parts.scheme or 'no scheme'!r}")
    if not parts.path.strip("/"):
        raise SettingInvalid(f"{shape}, and this one names no database")
    return {
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
    }


def database_options(url: str) -> dict[str, str]:
    """What stands after the question mark of the URL: libpq's parameters, such as sslmode."""
    return dict(parse_qsl(urlsplit(url).query))
