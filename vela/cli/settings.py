"""The addresses of the broker and the console, and the user."""

from __future__ import annotations

from dataclasses import dataclass

import click

__all__ = ["Settings", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of the root command, or their values in the environment."""

    url: str  # of the broker: ws://, wss://, pulsar:// or pulsar+ssl://
    console_url: str  # of the console: http:// or https://
    user: str  # of the console; "" = none
    password: str
    token: str = ""  # for the broker; "" = none
    token_file: str = ""  # a file with the token; "" = none


def settings() -> Settings:
    """Return the settings of the current command."""
    found = click.get_current_context().find_object(Settings)
    if found is None:
        raise RuntimeError("a vela command must run below the root command")
    return found
