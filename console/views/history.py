"""The charts and the table of a page's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

from console.blocks import Source
from console.history.series import thinned
from console.history.windows import WINDOWS
from console.queries.history import History

__all__ = ["history_sources"]

_ROWS = 60


def history_sources(
    request: HttpRequest,
    window_name: str,
    *,
    address: str,
    charts: tuple[str, ...],
    read: Callable[[], History],
    past: str = "",
) -> list[Source]:
    """Return the blocks `history` and `history_table`.

    Chart points and table rows link to the address `past`, unless it is empty.
    """
    window_name = window_name if window_name in WINDOWS else next(iter(WINDOWS))

    def chart() -> Mapping[str, Any]:
        return {
            "address": f"{address}?range={window_name}",
            "charts": charts,
            "windows": [
                (each, _query(request, each.name), each.name == window_name) for each in WINDOWS.values()
            ],
            "window": WINDOWS[window_name],
            "past": past,
        }

    def table() -> Mapping[str, Any]:
        found = read()
        rows = thinned(found.steps, _ROWS)
        return {
            "rows": [(datetime.fromtimestamp(row.at_ms / 1000, UTC), row) for row in reversed(rows)],
            "step_s": found.window.step_s * -(-len(found.steps) // _ROWS),
            "has_size": "stored" in charts,
            "has_acks": "acks" in charts,
            "acts": found.acts,
            "window": found.window,
            "past": past,
        }

    return [
        Source(name=name, template=f"console/parts/history/{template}.html", live=(), context=context)
        for name, template, context in (("history", "charts", chart), ("history_table", "table", table))
    ]


def _query(request: HttpRequest, window_name: str) -> str:
    query = request.GET.copy()
    query.pop("part", None)
    query["range"] = window_name
    return query.urlencode()
