"""The short form of `make chaos`: two kills of each process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.run import run_chaos
from tests.support.vela import VelaProcess, started_vela

SEED = 1  # each test adds to it: the seed names the topic too, and the tests share one Vela


@pytest.fixture(scope="module")
def vela() -> Iterator[VelaProcess]:
    """A Vela whose PostgreSQL keeps what it commits, as that of `make run` does."""
    with started_vela() as process:
        yield process


@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single"])
def test_kill_9_loses_nothing(vela: VelaProcess, batching: bool) -> None:
    findings = run_chaos(vela, kills=2, messages=6000, seed=SEED + batching, batching=batching)
    print(findings)
    assert findings.kills == {"broker": 2, "postgresql": 2, "worker-tick": 2}


def test_kill_9_with_deduplication_stores_nothing_twice(vela: VelaProcess) -> None:
    findings = run_chaos(vela, kills=2, messages=6000, seed=SEED + 2, batching=True, deduplicated=True)
    print(findings)
    assert findings.kills["broker"] == 2
