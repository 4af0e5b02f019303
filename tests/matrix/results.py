"""Read rows, the tests that show them and their results from pytest's JUnit files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

__all__ = ["FAILED", "PASSED", "SKIPPED", "Outcome", "read_results"]

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
_WORST: Final = (SKIPPED, PASSED, FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a test's cases. The worst result counts, but a passed case outweighs skipped cases."""

    result: str
    passed_with: AbstractSet[str] = frozenset()
    """Parts of the parameters of cases that passed: `tcp`, `websocket`, `batches`."""

    def and_then(self, other: Outcome) -> Outcome:
        """Return the outcome of these cases and others together."""
        return Outcome(
            result=max(self.result, other.result, key=_WORST.index),
            passed_with=self.passed_with | other.passed_with,
        )


def read_results(paths: Iterable[Path]) -> dict[str, dict[str, Outcome]]:
    """Return the outcome of the cases that show a row, by row and test (`tests/unit/x.py::TestY::test_z`).

    Raises OSError and ElementTree.ParseError.
    """
    found: dict[str, dict[str, Outcome]] = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            properties = [(each.get("name"), each.get("value", "")) for each in case.iter("property")]
            test = next((value for name, value in properties if name == "test"), "")
            outcome = _outcome(case)
            for row in (value for name, value in properties if name == "row"):
                tests = found.setdefault(row, {})
                tests[test] = tests[test].and_then(outcome) if test in tests else outcome
    return found


def _outcome(case: ElementTree.Element) -> Outcome:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return Outcome(result=FAILED)
    if "skipped" in kinds:
        return Outcome(result=SKIPPED)
    parameters = case.get("name", "").partition("[")[2]
    return Outcome(result=PASSED, passed_with=set(re.findall(r"[^-\]]+", parameters)))
