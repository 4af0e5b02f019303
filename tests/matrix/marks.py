"""`@pytest.mark.row("S1.4", "I13")` names the rows of docs/reference/behaviour.md that a test, or a case of it, shows.

pytest writes them into its JUnit file as properties of the case, and `make matrix` reads them there.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.matrix.behaviour import read_rows

__all__ = ["pytest_collection_modifyitems"]


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Add each test's rows to its properties. A row that the page does not have ends the run."""
    known = read_rows()
    for item in items:
        shown = {row: None for mark in item.iter_markers("row") for row in mark.args}
        if unknown := shown.keys() - known.keys():
            raise pytest.UsageError(
                f"{item.nodeid}: docs/reference/behaviour.md has no row {', '.join(sorted(unknown))}"
            )
        if shown:
            item.user_properties.append(("test", item.nodeid.partition("[")[0]))
            item.user_properties += [("row", row) for row in shown]
