"""Print tables for people and JSON for programs, on standard output."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "emit",
    "facts",
    "lines_of",
    "one_line",
    "print_rich",
    "printable",
    "rich_console",
    "table",
    "toned",
]

_TONES: Final = {"good": "green", "calm": "", "warn": "yellow", "bad": "red"}
_GAP: Final = 2  # spaces between columns
_AS_WIDE_AS_NEEDED: Final = 1 << 30
_LEAST: Final = 12  # letters that a column of text keeps on a narrow terminal, if it needs them
# Letters of a name beside a value, on a terminal. A longer name continues on the next line.
_MOST_FACT: Final = 30
_MOST_FACT_IN_A_PIPE: Final = 100  # every line of the table is padded to the longest name
_MOST_CELL_IN_A_PIPE: Final = 100  # a longer cell widens only its own row
# Characters that move the cursor, reverse the order of letters, or end a line without being control characters.
_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def emit(document: Any) -> None:
    """Print a JSON document as one line, which a reader of the pipe sees at once."""
    click.echo(json.dumps(document, ensure_ascii=not _writes_utf8(sys.stdout), separators=(", ", ": ")))


def _writes_utf8(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"


def printable(text: str) -> str:
    """Write control characters, except line ends and tabs, as escapes, which a terminal shows and does not execute."""
    return _CONTROL.sub(_escape, text)


def one_line(text: str) -> str:
    """Return printable text in one line, so that text from a server or a file cannot fake a sentence or a table row."""
    return printable(text).replace("\n", "⏎").replace("\t", "\\x09")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def toned(words: str, tone: str) -> Text:
    """Return words in the colour of a tone: good, calm, warn or bad."""
    from rich.text import Text

    return Text(one_line(words), style=_TONES.get(tone, ""))


def lines_of(text: str) -> Text:
    """Return text of several lines for `facts`, without characters that control a terminal."""
    from rich.text import Text

    return Text(printable(text))


def rich_console() -> Console:
    """Return rich's console: with colours on a terminal unless NO_COLOR is set; as wide as needed in a pipe."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _AS_WIDE_AS_NEEDED
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def print_rich(*what: RenderableType) -> None:
    """Print for people. In a pipe or a file, leave out spaces at the ends of lines."""
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
    cut: Sequence[str] = (),
) -> Table | Text:
    """Return a plain table. `right` names the columns of numbers. A cell is text, or rich's Text.

    On a terminal that is too narrow, the table leaves out the columns named in `spare`, in that order. If that is not
    enough, it leaves out columns of numbers, from the right, until each column of text has room for a few letters. In
    columns named in `cut`, a long name ends with an ellipsis; in other columns it continues on the next line. In a
    pipe, every row is one line, and a very long cell moves only the rest of its own row.
    """
    from rich.table import Table
    from rich.text import Text

    texts = [[cell if isinstance(cell, Text) else Text(one_line(str(cell))) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        return _piped(
            [[Text(name, style="bold") for name in columns], *texts], [name in right for name in columns]
        )
    widths = [max([len(name), *(row[at].cell_len for row in texts)]) for at, name in enumerate(columns)]
    shown = _fitting(columns, widths, right, spare)
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for at in shown:
        is_number = columns[at] in right
        made.add_column(
            columns[at],
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="ellipsis" if columns[at] in cut else "fold",
            min_width=min(widths[at], _LEAST) if at == 0 else None,
        )
    for row in texts:
        made.add_row(*(row[at] for at in shown))
    return made


def _piped(rows: Sequence[Sequence[Text]], are_numbers: Sequence[bool]) -> Text:
    """Return rows as lines. Columns are aligned, except after very long cells."""
    from rich.text import Text

    widths = [
        max((cell.cell_len for cell in column if cell.cell_len <= _MOST_CELL_IN_A_PIPE), default=0)
        for column in zip(*rows, strict=True)
    ]
    lines = []
    for row in rows:
        cells = []
        for cell, width, is_number in zip(row, widths, are_numbers, strict=True):
            blanks = Text(" " * (width - cell.cell_len))
            cells.append(blanks + cell if is_number else cell + blanks)
        lines.append(Text(" " * _GAP).join(cells))
    return Text("\n", no_wrap=True, overflow="ignore").join(lines)


def _fitting(
    columns: Sequence[str], widths: Sequence[int], right: Sequence[str], spare: Sequence[str]
) -> list[int]:
    """Return the indexes of the columns that have room on the terminal, in order."""
    shown = list(range(len(columns)))
    room = shutil.get_terminal_size().columns + _GAP
    for name in (each for each in spare if each in columns):
        if sum(widths[at] + _GAP for at in shown) <= room:
            return shown
        shown.remove(columns.index(name))
    least = [width if columns[at] in right else min(width, _LEAST) for at, width in enumerate(widths)]
    for at in [at for at in reversed(shown) if columns[at] in right][:-1]:
        if sum(least[each] + _GAP for each in shown) <= room:
            break
        shown.remove(at)
    return shown


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return a table of names and values, one pair per line. A value that may have several lines is rich's Text."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    most = _MOST_FACT if sys.stdout.isatty() else _MOST_FACT_IN_A_PIPE
    made.add_column(style="dim", overflow="fold", max_width=most)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(Text(one_line(name)), value if isinstance(value, Text) else Text(one_line(str(value))))
    return made
