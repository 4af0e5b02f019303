"""broker/storage/sql/README.md: every test that the table of races names exists."""

from __future__ import annotations

import re

from config.environment import PROJECT_DIR
from tests.unit.docs.pages import code_names, rows, section

NAMED = re.compile(r"(?P<file>[\w/]+\.py)?(?:: )?(?P<beginning>\w*)…?")


def test_every_test_in_the_table_of_races_exists() -> None:
    text = (PROJECT_DIR / "broker/storage/sql/README.md").read_text(encoding="utf-8")
    source, missing = "", []
    for *_, tests in rows(section(text, "Races")):
        for name in code_names(tests):
            named = NAMED.fullmatch(name)
            assert named, name
            if named["file"]:
                source = (PROJECT_DIR / "tests" / named["file"]).read_text(encoding="utf-8")
            if f"def test_{named['beginning']}" not in source:
                missing.append(name)
    assert missing == []
