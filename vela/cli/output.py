"""What commands print: tables for people, JSON for programs. On standard output, and nothing else is."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["emit", "facts", "print_rich", "printable", "rich_console", "table", "toned"]

_TONES: Final = {"good": "green", "calm": "", "warn": "yellow", "bad": "red"}
_GAP: Final = 2  # blanks between columns
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def emit(document: Any) -> None:
    """One JSON document on a line of its own, seen by a reader of the pipe at once."""
    click.echo(json.dumps(document, ensure_ascii=False, separators=(", ", ": ")))


def printable(text: str) -> str:
    """Without what a terminal would obey: control characters are written as escapes, but for line ends and tabs."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def toned(words: str, tone: str) -> Text:
    """In the colour of a tone: good, calm, warn or bad."""
    from rich.text import Text

    return Text(printable(words), style=_TONES.get(tone, ""))


def rich_console() -> Console:
    """On standard output: with colours on a terminal unless NO_COLOR is set; in a pipe or a file as wide as need be."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 10_000
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def print_rich(*what: RenderableType) -> None:
    """For people; in a pipe or a file without the blanks that fill up columns."""
    console = rich_console()
    if console.is_terminal:
        console.print(*what, sep="\n")
        return
    with console.capture() as captured:
        console.print(*what, sep="\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> Table:
    """A plain table; columns named in `right` hold numbers. A cell is text, or rich's Text.

    On a terminal that is too narrow the columns named in `spare` are left out, the first one first.
    """
    from rich.table import Table
    from rich.text import Text

    texts = [[cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row] for row in rows]
    widths = [max([len(name), *(row[at].cell_len for row in texts)]) for at, name in enumerate(columns)]
    shown = _fitting(columns, widths, spare)
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for at in shown:
        is_number = columns[at] in right
        made.add_column(
            columns[at], justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in texts:
        made.add_row(*(row[at] for at in shown))
    return made


def _fitting(columns: Sequence[str], widths: Sequence[int], spare: Sequence[str]) -> list[int]:
    """Which columns have room, in order."""
    shown = list(range(len(columns)))
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        for name in (each for each in spare if each in columns):
            if sum(widths[at] + _GAP for at in shown) - _GAP <= room:
                break
            shown.remove(columns.index(name))
    return shown


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value if isinstance(value, Text) else Text(printable(str(value))))
    return made
