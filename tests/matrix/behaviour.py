"""Parse the rows of docs/reference/behaviour.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from config.environment import PROJECT_DIR

__all__ = ["BEHAVIOUR", "SIDES", "BadPage", "Row", "read_rows", "rows_in"]

BEHAVIOUR: Final = PROJECT_DIR / "docs" / "reference" / "behaviour.md"
SIDES: Final = ("broker", "both", "client")
_LINE = re.compile(r"^\| ([SI]\d[\d.]*) \| ([^|]*) \| (.*) \|$", re.MULTILINE)


class BadPage(Exception):
    """The page has a row that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the page."""

    name: str  # "S1.4", "I9"
    side: str  # one of SIDES
    statement: str

    @property
    def is_brokers(self) -> bool:
        """Whether the row has a broker's half, which a test must show."""
        return self.side != "client"

    @property
    def is_clients(self) -> bool:
        """Whether the row has a client library's half, which another test must show."""
        return self.side != "broker"


def rows_in(page: str) -> dict[str, Row]:
    """Return the rows of a page's text by name, in its order. Raises BadPage for a duplicate row or an unknown side."""
    found: dict[str, Row] = {}
    for name, side, statement in _LINE.findall(page):
        if name in found:
            raise BadPage(f"row {name} appears twice")
        if side not in SIDES:
            raise BadPage(f"row {name}: its side is {side!r}, and must be one of {', '.join(SIDES)}")
        found[name] = Row(name=name, side=side, statement=statement)
    return found


def read_rows() -> dict[str, Row]:
    """Return the rows of docs/reference/behaviour.md. Raises BadPage."""
    return rows_in(BEHAVIOUR.read_text(encoding="utf-8"))
