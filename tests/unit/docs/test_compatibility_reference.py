"""docs/reference/compatibility.md says for every command, path and parameter of Pulsar what Vela does with it."""

from __future__ import annotations

from tests.unit.docs.compatibility_tables import PAGE, commands_not_sent, page_with_tables
from tests.unit.docs.pages import page, rows, section


def test_the_tables_are_those_of_the_code() -> None:
    assert PAGE.read_text("utf-8") == page_with_tables(), "run python -m tests.unit.docs.compatibility_tables"


def test_everything_that_is_not_done_has_a_reason() -> None:
    assert [name for name, reason in commands_not_sent() if not reason] == []
    for cells in rows(page("reference/compatibility.md")):
        *_, state, reason = cells
        assert state in ("done", "refused", "ignored", "absent")
        assert state == "done" or reason, cells


def test_no_command_is_listed_twice() -> None:
    text = section(page("reference/compatibility.md"), "Commands of the binary protocol")
    names = [cells[0] for cells in rows(text)]
    assert len(names) == len(set(names))
