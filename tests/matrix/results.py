"""Results of tests out of pytest's JUnit files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

__all__ = ["FAILED", "NOT_RUN", "PASSED", "SKIPPED", "Outcome", "outcome_of", "read_outcomes"]

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "FAILED", "skipped", "not run"
_WORST: Final = (SKIPPED, PASSED, FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a test's cases. Of several the worst counts, but one that passed outweighs skipped ones."""

    result: str
    passed_with: AbstractSet[str] = frozenset()
    """Parts of the parameters of cases that passed: `tcp`, `websocket`, `batches`."""


def read_outcomes(paths: Iterable[Path]) -> dict[tuple[str, str], Outcome]:
    """(class name, test without its parameters) → outcome. Raises OSError and ElementTree.ParseError."""
    found: dict[tuple[str, str], Outcome] = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            name, _, parameters = case.get("name", "").partition("[")
            key = case.get("classname", ""), name
            kinds = {child.tag for child in case}
            result = FAILED if kinds & {"failure", "error"} else SKIPPED if "skipped" in kinds else PASSED
            before = found.get(key, Outcome(result=SKIPPED))
            found[key] = Outcome(
                result=max(before.result, result, key=_WORST.index),
                passed_with=before.passed_with | _parts(parameters)
                if result == PASSED
                else before.passed_with,
            )
    return found


def _parts(parameters: str) -> set[str]:
    return set(re.findall(r"[^-\]]+", parameters))


def outcome_of(test: str, outcomes: Mapping[tuple[str, str], Outcome]) -> Outcome:
    """The outcome of `tests/unit/x.py::TestY::test_z`."""
    path, _, inside = test.partition("::")
    *classes, name = inside.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return outcomes.get((".".join([module, *classes]), name), Outcome(result=NOT_RUN))
