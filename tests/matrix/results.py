"""Results of tests out of pytest's JUnit files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["FAILED", "NOT_RUN", "PASSED", "SKIPPED", "read_results", "result_of"]

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "FAILED", "skipped", "not run"


def read_results(paths: Iterable[Path]) -> dict[tuple[str, str], str]:
    """(class name, test without its parameters) → result. Of several cases the worst counts, but one that
    passed outweighs skipped ones. Raises OSError and ElementTree.ParseError.
    """
    found: dict[tuple[str, str], str] = {}
    worst = (SKIPPED, PASSED, FAILED)
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            key = case.get("classname", ""), case.get("name", "").partition("[")[0]
            kinds = {child.tag for child in case}
            result = FAILED if kinds & {"failure", "error"} else SKIPPED if "skipped" in kinds else PASSED
            found[key] = max(found.get(key, SKIPPED), result, key=worst.index)
    return found


def result_of(test: str, results: Mapping[tuple[str, str], str]) -> str:
    """The result of `tests/unit/x.py::TestY::test_z`."""
    path, _, inside = test.partition("::")
    *classes, name = inside.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return results.get((".".join([module, *classes]), name), NOT_RUN)
