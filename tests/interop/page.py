"""The page with the answers, docs/reference/clients-tried.md."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.interop.tables import TABLES, Table

__all__ = ["SIGNS", "Answer", "page"]

SIGNS: Final = {"ok": "yes", "failed": "**no**", "absent": "—"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A program's answer to a question. `result` is a key of SIGNS."""

    result: str
    reason: str = ""


def page(answers: Mapping[str, Mapping[str, Answer]], date: datetime.date) -> str:
    """Return the page with the answers of all programs, by their keys and the questions' names."""
    lines = [
        "# Clients and tools that were tried",
        "",
        f"`make interop` ran these checks on {date.isoformat()}. Each client and each tool came unmodified from its",
        "language's registry and connected with a token.",
    ]
    for table in TABLES:
        lines += ["", f"## {table.heading}", "", table.sentences, "", *_rows(table, answers)]
    return "\n".join(lines) + "\n"


def _rows(table: Table, answers: Mapping[str, Mapping[str, Answer]]) -> Iterator[str]:
    yield "| | " + " | ".join(program.title for program in table.programs) + " |"
    yield "|---|" + "---|" * len(table.programs)
    for name, title in table.questions.items():
        signs = (SIGNS[answers[program.key][name].result] for program in table.programs)
        yield f"| {title} | " + " | ".join(signs) + " |"
