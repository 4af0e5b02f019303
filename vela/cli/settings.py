"""Where the broker and the console are, and who asks."""

from __future__ import annotations

from dataclasses import dataclass

import click

__all__ = ["Settings", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the root's options and the environment say."""

    url: str  # of the broker: ws://, wss://, pulsar:// or pulsar+ssl://
    console_url: str  # of the console: http:// or https://
    user: str  # of the console; "" = nobody
    password: str


def settings() -> Settings:
    """Of the command that runs."""
    found = click.get_current_context().find_object(Settings)
    if found is None:
        raise RuntimeError("a command of vela runs below its root")
    return found
