"""The short form of `make chaos`: two kills of each process, under three kinds of workload at the same time."""

from __future__ import annotations

from tests.chaos.run import Kind, run_chaos
from tests.support.vela import started_vela

KINDS = (Kind(batching=True), Kind(batching=False), Kind(deduplicated=True))


def test_kill_9_loses_nothing_and_with_deduplication_stores_nothing_twice() -> None:
    with started_vela() as vela:  # its PostgreSQL keeps commits through a crash, like the one of `make run`
        found = run_chaos(vela, kills=2, messages=6000, seed=1, kinds=KINDS)
    for findings in found:
        print(findings)
        assert findings.kills == {"broker": 2, "postgresql": 2, "worker-tick": 2}
