"""docs/reference/diagnosis.md: every rule in its order, with its window, and no other rule."""

from __future__ import annotations

from console.diagnosis.diagnose import CAUSES, NOTICES, RULES, STANDINGS
from console.diagnosis.findings import Severity
from console.diagnosis.words import severity_word
from tests.unit.docs.pages import code_names, page, rows, section

PAGE = page("reference/diagnosis.md")


def test_every_rule_is_documented_with_its_window_in_order() -> None:
    documented = [(code_names(cells[0])[0], float(cells[1])) for cells in rows(section(PAGE, "Rules"))]
    assert documented == [(rule.id, rule.window_s) for rule in RULES]
    assert (*CAUSES, *NOTICES, *STANDINGS) == RULES


def test_every_severity_is_documented_with_its_word() -> None:
    table = PAGE.partition("## Rules")[0]
    documented = [(code_names(cells[0])[0], cells[1]) for cells in rows(table)]
    assert documented == [(each.value, severity_word(each)[0]) for each in Severity]
