"""docs/reference/metrics.md: every series of /metrics with its type, and no other."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from broker.process.metrics import metrics_text
from broker.pulls.parked import Holds
from tests.unit.docs.pages import page, rows

if TYPE_CHECKING:
    from broker.process.broker import Broker
    from broker.process.services import Services


def exposed() -> dict[str, str]:
    """Name → type, of a broker without topics: the headings are there all the same."""
    services = SimpleNamespace(
        writer=SimpleNamespace(commits=0, unknown_outcomes=0), cache=SimpleNamespace(size_bytes=0)
    )
    stragglers = SimpleNamespace(segments=0, dropped=0, copied_entries=0)
    services.settings = SimpleNamespace(max_uncompressed_bytes=1)
    services.holds = Holds(cast("Services", services), lambda _: None)
    broker = SimpleNamespace(
        topics={},
        non_persistent=SimpleNamespace(all=list),
        outbox=SimpleNamespace(moved=0, refused=0),
        services=services,
        lifetime=SimpleNamespace(trimmed_bytes=0, pin=None, stragglers=stragglers),
        is_ready=lambda: (True, ""),
        refused_requests={},
    )
    text = metrics_text(cast("Broker", broker))
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def test_the_page_lists_the_series_that_there_are() -> None:
    documented = {cells[0].strip("`"): cells[1] for cells in rows(page("reference/metrics.md"))}
    assert documented == exposed()
