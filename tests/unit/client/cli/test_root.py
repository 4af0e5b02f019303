"""The root: quick, complete, and the same words wherever a command is described."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole
from vela.cli.lazy import Lazy
from vela.cli.root import COMMANDS, cli


def test_help_imports_nothing_that_takes_long() -> None:
    code = (
        "import sys; from vela.cli.root import cli\n"
        "try: cli(['--help'], prog_name='vela')\n"
        "except SystemExit:\n"
        "    slow = {'httpx', 'rich', 'asyncio', 'django'}\n"
        "    print(sorted(slow & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("[]\n")
    assert "Look:" in done.stdout


@pytest.mark.parametrize("lazy", COMMANDS, ids=[each.name for each in COMMANDS])
def test_a_command_says_of_itself_what_the_list_says_of_it(lazy: Lazy) -> None:
    command = cli.get_command(click.Context(cli), lazy.name)
    assert command is not None
    assert (command.name, (command.help or "").partition("\n\n")[0].replace("\n", " ")) == (
        lazy.name,
        lazy.summary,
    )


def test_the_version(vela: Vela, console: FakeConsole) -> None:
    assert vela("--version").stdout.startswith("vela")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(f"completion {shell}")
    assert (done.exit_code, "_VELA_COMPLETE" in done.stdout, f"{shell}_complete" in done.stdout) == (
        0,
        True,
        True,
    )
