"""Read Markdown pages for tests: their tables, and the names in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.environment import PROJECT_DIR

__all__ = ["DOCS_DIR", "code_names", "page", "python_files", "rows", "section"]

DOCS_DIR: Final = PROJECT_DIR / "docs"
_CODE = re.compile(r"`([^`]+)`")
_CELL = re.compile(r"(?<!\\)\|")


def page(name: str) -> str:
    """Return the text of a page below docs/."""
    return (DOCS_DIR / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """Return the text under a heading of the second level. Fails if there is none."""
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading!r}"
    return found[1]


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every table row, without headings and rules."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if not line.startswith("|") or set(line) <= set("|-: "):
            continue
        if at + 1 < len(lines) and lines[at + 1].startswith("|--"):
            continue
        yield [cell.strip().replace(r"\|", "|") for cell in _CELL.split(line)[1:-1]]


def code_names(cell: str) -> list[str]:
    """Return the texts in backticks."""
    return _CODE.findall(cell)


def python_files(*folders: str) -> Iterator[Path]:
    """Yield every module of these folders of the project."""
    for folder in folders:
        yield from sorted((PROJECT_DIR / folder).rglob("*.py"))
