"""A pinned range stays readable as long as its own messages are stored."""

from __future__ import annotations

from contextlib import nullcontext
from typing import cast

import pytest

from pipeline.database import Connection
from pipeline.jobs import export
from pipeline.source.bounds import starts_of
from pipeline.source.offsets import Offset
from pipeline.source.options import ReadOptions
from pipeline.source.plan import ReadPlan
from tests.unit.pipeline.memory_log import MemoryIndex, memory_log

NAME = "persistent://public/default/t"
SOURCE = {"topic": NAME, "url": "postgresql://vela@127.0.0.1/vela"}


def test_the_entry_before_a_pinned_range_may_be_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)] * 3], name=NAME, first_ledger=6, messages_before=4)
    before = Offset(ledger_id=5, entry_id=3, messages=4)  # the last entry of the ledger before the range
    plan = ReadPlan(starts={NAME: before}, ends={NAME: log.latest}, ranges=(), messages=3)
    monkeypatch.setattr(export, "reading", lambda *_: nullcontext())
    monkeypatch.setattr(export, "plan_read", lambda *_: plan)
    pinned, _ = export.pin(SOURCE, starts=True)
    options = ReadOptions.parse({**SOURCE, **pinned})
    starts = starts_of(cast(Connection, None), [log], options, default="earliest")
    assert starts == {NAME: log.earliest}
