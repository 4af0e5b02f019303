"""The root: quick, complete, and the same words wherever a command is described."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest

from tests.support.ports import free_ports
from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole
from tests.unit.docs.test_command_line_reference import LEAVES
from vela.cli.lazy import Lazy
from vela.cli.options import FiniteRange
from vela.cli.root import COMMANDS, cli


def test_help_imports_no_slow_module() -> None:
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
def test_a_command_has_the_same_summary_in_the_list_and_in_its_help(lazy: Lazy) -> None:
    command = cli.get_command(click.Context(cli), lazy.name)
    assert command is not None
    assert (command.name, (command.help or "").partition("\n\n")[0].replace("\n", " ")) == (
        lazy.name,
        lazy.summary,
    )


def test_the_option_version_prints_the_version(vela: Vela, console: FakeConsole) -> None:
    assert vela("--version").stdout.startswith("vela")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(f"completion {shell}")
    assert (done.exit_code, "_VELA_COMPLETE" in done.stdout, f"{shell}_complete" in done.stdout) == (
        0,
        True,
        True,
    )


def test_no_number_may_be_nan_or_inf() -> None:
    numbers = {
        (name, each.name): type(each.type)
        for name, command in LEAVES.items()
        for each in command.params
        if isinstance(each.type, click.types.FloatParamType)
    }
    assert len(numbers) > 5
    assert set(numbers.values()) == {FiniteRange}


@pytest.mark.parametrize("seconds", ["-5", "nan", "inf"])
def test_an_invalid_waiting_time_is_a_usage_error(seconds: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(f"clear orders billing --yes --wait {seconds}")
    assert (done.exit_code, console.asked) == (2, [])


def test_a_time_out_of_range_is_a_usage_error(vela: Vela, console: FakeConsole) -> None:
    done = vela("reset orders billing --time 9999999999999999999 --yes")
    assert (done.exit_code, console.asked) == (2, [])
    assert "from 1970 to the end of 9999" in done.stderr


@pytest.mark.parametrize(
    ("line", "exit_code", "says"),
    [
        ("produce t", 2, "standard input is closed: give messages as arguments, or a file with --file"),
        (
            "produce t --file -",
            2,
            "standard input is closed: give messages as arguments, or a file with --file",
        ),
        ("produce t m", 1, "set VELA_URL or --url"),
        ("clear orders billing", 1, "no console answers at"),
        ("--user ada topics list", 5, "the password of user 'ada' is missing"),
    ],
)
def test_a_closed_standard_input_is_not_a_fault(line: str, exit_code: int, says: str) -> None:
    (free,) = free_ports(1)
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m vela.cli {line} <&-', sys.executable],
        env={
            **os.environ,
            "VELA_URL": f"ws://127.0.0.1:{free}",
            "VELA_CONSOLE_URL": f"http://127.0.0.1:{free}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, says in done.stderr, done.stderr.count("\n")) == (exit_code, True, 1), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("redirection", "says"),
    [(">&-", "vela: standard output is closed\n"), (">/dev/full", "vela: No space left on device\n")],
)
def test_output_that_cannot_be_written_is_one_line(redirection: str, says: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m vela.cli --version {redirection}', sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, says)


def test_the_last_resort_is_one_line_of_json() -> None:
    code = (
        "import sys, vela.cli.root as root\n"
        "from vela.cli.__main__ import main\n"
        "sys.argv = ['vela', 'topics', 'list', '--json']\n"
        "root.cli = lambda **_: {}['two\\nlines']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert json.loads(done.stderr)["error"].startswith("KeyError: ")
