"""Tables fit the terminal; in a pipe they have every column."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from vela.cli.text.output import emit, facts, one_line, print_rich, printable, table

COLUMNS = ("topic", "backlog", "stored", "last")
ROWS = [("orders", "1", "2 kB", "3 s"), ("a-longer-name", "1,000", "2 kB", "30 min")]


def headers(made: Table | Text) -> list[str]:
    if isinstance(made, Text):
        return made.plain.splitlines()[0].split()
    return [str(column.header) for column in made.columns]


def shown(monkeypatch: pytest.MonkeyPatch, width: int | None) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: width is not None, raising=False)
    monkeypatch.setattr(
        "vela.cli.text.output.shutil.get_terminal_size",
        lambda *_, **__: os.terminal_size((width or 0, 20)),  # pytest also calls it, with other arguments
    )
    return headers(table(COLUMNS, ROWS, right=("backlog",), spare=("last", "unknown", "stored")))


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (None, ["topic", "backlog", "stored", "last"]),
        (38, ["topic", "backlog", "stored", "last"]),
        (37, ["topic", "backlog", "stored"]),
        (30, ["topic", "backlog", "stored"]),
        (29, ["topic", "backlog"]),
        (10, ["topic", "backlog"]),
    ],
)
def test_spare_columns_go_first(
    width: int | None, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(monkeypatch, width) == columns


def test_numbers_make_room_for_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    columns = ("subscription", "backlog", "consumers", "unacked")
    made = table(columns, [("a-name-of-20-letters", 1, 2, 3)], right=columns[1:])
    assert headers(made) == ["subscription", "backlog"]
    print_rich(made)
    assert "a-name-of-20" in capsys.readouterr().out


def test_a_name_that_is_too_long_is_cut_to_the_terminal_where_a_table_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    print_rich(table(("act", "where", "who"), [("7", "n" * 300, "vera")], right=("act",), cut=("where",)))
    _, line = capsys.readouterr().out.splitlines()
    assert len(line.rstrip()) <= 40
    assert "n…" in line
    assert line.rstrip().endswith("vera")


def test_control_characters_are_shown_as_escapes() -> None:
    assert printable("a\x1b[31m\tb\r\n\x9b") == "a\\x1b[31m\tb\\x0d\n\\x9b"
    assert one_line("a\x1b\tb\n\u2028\u202ec") == "a\\x1b\\x09b⏎\\u2028\\u202ec"


def test_one_long_name_does_not_widen_every_line_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    print_rich(facts([("id", "3:4"), (f"property {'n' * 5000}", "v" * 5000)]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" 3:4")
    assert len(lines[0]) < 110
    assert sum(line.count("n") for line in lines) == 5000
    assert lines[1].endswith("v" * 5000)  # programs read values, so they stay whole


def test_one_long_cell_does_not_widen_every_row_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    rows = [("3:4", "k", "7", "one"), ("3:5", "k" * 20_000, "10", "two"), ("3:6", "", "800", "")]
    print_rich(table(("id", "key", "size", "payload"), rows, right=("size",)))
    assert capsys.readouterr().out.splitlines() == [
        "id   key  size  payload",
        "3:4  k       7  one",
        f"3:5  {'k' * 20_000}    10  two",
        "3:6        800",
    ]


def test_characters_that_the_output_cannot_express_are_shown_as_escapes(tmp_path: Path) -> None:
    (tmp_path / "vela").mkdir()
    (tmp_path / "vela" / "profiles.toml").write_text('[shop]\nurl = "ws://é–:1"\n', encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-m", "vela.cli", "profile", "list"],
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert shown.stdout.decode("latin-1") == "  shop  ws://é\\u2013:1\n"


def test_half_a_character_from_a_payload_is_shown_as_an_escape() -> None:
    """Not even UTF-8 can encode half a character. `vela find` can print one, because JSON can contain one."""
    command = (
        "import vela.cli.root as root; from vela.cli.__main__ import main; from vela.cli.text.output import emit;"
        r" root.cli = lambda prog_name: emit({'$.a': 'x\ud83d'}); main()"
    )
    shown = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert shown.stdout == rb'{"$.a": "x\ud83d"}' + b"\n"


def test_json_is_json_in_every_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    emit({"name": "é–"})
    assert json.loads(written.getvalue()) == {"name": "é–"}
