"""docs/reference/command-line.md: every command of `vela`, its arguments and options, exit codes and environment."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tests.unit.docs.pages import code_names, page, rows, section
from vela.cli.errors import Exit
from vela.cli.root import cli

PAGE = page("reference/command-line.md")
OF_EVERY_ACT = {"--yes", "--plan-only", "--reason", "--allow-drift", "--wait", "--partition"}


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Return every command that has no subcommands, by the words that call it."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*words, name))


LEAVES = dict(leaves(cli))


def options_of(command: click.Command) -> set[str]:
    return {name for each in command.params if isinstance(each, click.Option) for name in each.opts}


def documented(name: str) -> str:
    """Return the text under the heading of a command."""
    usage = re.escape(f"vela {name}")
    found = re.search(rf"^### `{usage}((?: [^a-z`]+)?)`$(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no heading for vela {name}"
    return f"{found[1].strip()}\n{found[2]}"


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_is_documented_with_its_arguments_and_options(name: str) -> None:
    command, text = LEAVES[name], documented(name)
    context = click.Context(command)
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    assert text.partition("\n")[0] == " ".join(arguments)
    described = {
        option.split()[0] for cells in rows(text) for option in code_names(cells[0]) if option.startswith("-")
    }
    expected = options_of(command) - {"--json"}
    if "--plan-only" in expected:
        expected -= OF_EVERY_ACT | {"-y"}
    assert described == expected


def test_no_command_is_documented_that_does_not_exist() -> None:
    headings = re.findall(r"^### `vela ([a-z -]+?)(?: [A-Z\[].*)?`$", PAGE, re.MULTILINE)
    assert sorted(headings) == sorted(LEAVES)


def test_the_parameters_of_every_act_are_documented() -> None:
    described = {
        option.split()[0] for cells in rows(section(PAGE, "Acts")) for option in code_names(cells[0])
    }
    assert described == OF_EVERY_ACT | {"-y", "--json"}
    assert all("--json" in options_of(command) for name, command in LEAVES.items() if name != "completion")


def test_every_exit_code_is_documented() -> None:
    codes = [int(cells[0]) for cells in rows(section(PAGE, "Output"))]
    assert codes == sorted(Exit)


def test_the_options_of_the_root_are_documented_with_their_environment() -> None:
    cells = list(rows(section(PAGE, "Where and who")))
    described = {option for row in cells for option in code_names(row[0])}
    assert described == options_of(cli) | {"-h", "--help"}
    from_environment = {
        str(each.envvar) for each in cli.params if isinstance(each, click.Option) and each.envvar
    }
    assert {name for row in cells for name in code_names(row[1])} == from_environment | {
        "VELA_PASSWORD",
        "NO_COLOR",
    }
