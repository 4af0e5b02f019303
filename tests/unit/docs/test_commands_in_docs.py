"""The programs accept every `vela` and `manage.py` command in the runbook and the how-to pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from django.core.management import get_commands

from tests.unit.docs.pages import DOCS_DIR, python_files
from vela.cli.root import cli

PAGES = sorted(path for folder in ("runbook", "how-to") for path in (DOCS_DIR / folder).glob("*.md"))
VELA = re.compile(
    r"^ {4}\$? ?(?:[A-Z_]+=\S+ )*(vela [a-z].*?)(?: {2,}#.*|\s[>|] .*)?$|`(vela [a-z][^`⟨…]*)`", re.MULTILINE
)
FROM_AN_INDEX = re.compile(r"pip install[^`\n]*(?<![\w./-])vela\b")
MANAGE = re.compile(r"manage\.py\s([a-z_]+)")


def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in PAGES}


def lines() -> list[str]:
    found = {
        " ".join((one or other).split()) for text in texts().values() for one, other in VELA.findall(text)
    }
    return sorted(found)


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse the words as the program would. Raises click.UsageError if the program does not take them."""
    if not words:
        return  # the text only names the command
    context = command.make_context(command.name, words, parent=parent, resilient_parsing=False)
    if isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None, name
        parse(found, rest, context)


@pytest.mark.parametrize("line", lines())
def test_vela_accepts_every_command_line_of_the_docs(line: str) -> None:
    parse(cli, ["1" if word in ("ACT", "N") else word for word in shlex.split(line)[1:]])


def test_manage_py_has_every_command_of_the_docs() -> None:
    known = get_commands()
    assert {
        (path.name, name)
        for path, text in texts().items()
        for name in MANAGE.findall(text)
        if name not in known
    } == set()


def test_nothing_tells_you_to_install_vela_from_an_index() -> None:
    """Vela has no release, and its name in the package index belongs to another package."""
    files = [*DOCS_DIR.rglob("*.md"), *python_files("broker", "console", "pipeline", "vela")]
    assert [path for path in files if FROM_AN_INDEX.search(path.read_text(encoding="utf-8"))] == []
