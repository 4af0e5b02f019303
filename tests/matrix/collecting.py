"""Which tests show which rows: by their names, without importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeGuard

from config.environment import PROJECT_DIR

__all__ = ["TESTS_DIR", "find_tests", "is_client_test", "is_whole_client_test", "row_tests", "rows_of"]

TESTS_DIR: Final = PROJECT_DIR / "tests"
_ROWS = re.compile(r"test((?:_(?:s\d+_\d+|i\d+))+)_")
_ROW = re.compile(r"s(\d+)_(\d+)|i(\d+)")


def rows_of(test: str) -> list[str]:
    """The rows that a test's name begins with: test_s1_10_i13_counts → S1.10, I13."""
    named = _ROWS.match(test)
    if named is None:
        return []
    return [f"S{s}.{n}" if s else f"I{i}" for s, n, i in _ROW.findall(named[1])]


def find_tests(source: str) -> Iterator[str]:
    """Tests of a module as pytest names them below the file: `test_x`, `TestY::test_x`."""
    for node in ast.parse(source).body:
        if _is_test(node):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from (f"{node.name}::{each.name}" for each in node.body if _is_test(each))


def row_tests(folder: Path = TESTS_DIR) -> dict[str, list[str]]:
    """Row name → the tests named by it (`tests/unit/x.py::test_s1_4_…`), in the order of files and lines."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for test in find_tests(path.read_text(encoding="utf-8")):
            for row in rows_of(test.rpartition("::")[2]):
                found.setdefault(row, []).append(f"{path.relative_to(folder.parent).as_posix()}::{test}")
    return found


def is_client_test(test: str) -> bool:
    """Whether a test shows the client's half: it lies in a folder tests/*/client."""
    return test.partition("::")[0].split("/")[2:3] == ["client"]


def is_whole_client_test(test: str) -> bool:
    """Whether it shows the client's half against a whole Vela: it lies in tests/acceptance/client."""
    return test.startswith("tests/acceptance/client/")


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
