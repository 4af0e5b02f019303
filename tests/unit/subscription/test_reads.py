"""Reads of one subscription, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from broker.core.entry import StoredEntry
from broker.log.reader import GapInLog
from broker.subscription.reads import Reads


async def test_a_gap_ends_an_earlier_fault() -> None:
    """Otherwise the console would show both, and the fault would stay until the cursor is moved and a read succeeds."""
    ended: list[Sequence[StoredEntry]] = []
    gaps: list[str] = []
    faults: list[str] = []
    reads = Reads(
        "t s",
        log_fields=dict,
        ended=ended.append,
        gap_found=gaps.append,
        fault_changed=lambda: faults.append(reads.fault),
    )

    async def failing(error: Exception) -> Sequence[StoredEntry]:
        raise error

    async def run(error: Exception) -> None:
        reads.start(lambda: failing(error))
        assert reads.task is not None
        await asyncio.wait((reads.task,))

    with patch("broker.subscription.reads.pause_after_faults_s", lambda _: 0.0):
        await run(RuntimeError("no answer"))
        await run(GapInLog("entry 1:2 is missing"))
    assert gaps == ["entry 1:2 is missing"]
    assert faults == ["RuntimeError; the broker's log says more", ""]
    assert (reads.fault, reads._faults, ended) == ("", 0, [(), ()])
