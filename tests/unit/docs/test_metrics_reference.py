"""docs/reference/metrics.md: every series of /metrics with its type, and no other series."""

from __future__ import annotations

import re

from tests.support.memory_broker import memory_broker
from tests.unit.docs.pages import page, rows


async def test_the_page_lists_every_series_and_no_other() -> None:
    documented = {cells[0].strip("`"): cells[1] for cells in rows(page("reference/metrics.md"))}
    async with memory_broker() as run:  # the page has every heading even without topics
        exposed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", run.metrics_text(), re.MULTILINE))
    assert documented == exposed
