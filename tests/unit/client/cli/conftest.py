"""Run the command line in this process, with a console that answers from memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.unit.client.cli.fake_console import FakeConsole
from vela.cli.root import cli

Vela = Callable[..., Result]


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> FakeConsole:
    """The console that gets every request of the test."""
    fake = FakeConsole()
    monkeypatch.setattr("httpx.Client", partial(httpx.Client, transport=httpx.MockTransport(fake)))
    for name in ("VELA_URL", "VELA_CONSOLE_URL", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VELA_USER", "ada")
    monkeypatch.setenv("VELA_PASSWORD", "secret-7")
    monkeypatch.setattr("vela.cli.console._POLL_S", 0.0)
    return fake


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the computer's time zone to three and a half hours ahead of UTC."""
    monkeypatch.setenv("TZ", "XYZ-3:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def vela(console: FakeConsole) -> Vela:
    """A function that runs a command line, with `typed` as its standard input."""

    def run(line: str, typed: str | IO[bytes] = "", **more: Any) -> Result:
        return CliRunner().invoke(cli, line.split(), input=typed, prog_name="vela", **more)

    return run
