"""A turn of the deadlines looks only at due parts, and a fault in one part does not stop the others."""

from __future__ import annotations

import pytest

from broker.deadlines import Deadlines
from tests.support.broker_harness import ManualClock


class Waiting:
    """A watched part that counts how often it is run and asked for its time."""

    def __init__(self, due_ms: int | None) -> None:
        self.due_ms = due_ms
        self.runs = self.looks = 0
        self.fails = False

    def run_due(self, now_ms: int) -> int:
        """Return 1 at the first call at or after the due time, and 0 otherwise."""
        self.runs += 1
        if self.fails:
            raise RuntimeError("a fault")
        if self.due_ms is None or self.due_ms > now_ms:
            return 0
        self.due_ms = None
        return 1

    def next_due_ms(self) -> int | None:
        """Return `due_ms`."""
        self.looks += 1
        return self.due_ms


def watching(clock: ManualClock, *dues_ms: int) -> tuple[Deadlines, list[Waiting]]:
    """Return deadlines that the test runs itself, and parts that are due at these times."""
    deadlines = Deadlines(clock, wheel_enabled=False)
    waiting = [Waiting(due_ms) for due_ms in dues_ms]
    for each in waiting:
        assert each.due_ms is not None
        deadlines.watch(each, each.due_ms)
    return deadlines, waiting


@pytest.mark.parametrize("others", [1, 1000])
def test_a_turn_looks_only_at_due_parts_however_many_wait(others: int) -> None:
    clock = ManualClock()
    now_ms = clock.now_ms()
    deadlines, (due, *later) = watching(clock, now_ms + 10, *[now_ms + 5000] * others)
    clock.advance(10)
    assert deadlines.run_due() == 1
    assert (due.runs, due.looks) == (1, 1)
    assert sum(each.runs + each.looks for each in later) == 0
    assert deadlines.run_due() == 0
    assert (due.runs, due.looks) == (1, 1)
    clock.advance(4990)
    assert deadlines.run_due() == others


def test_a_fault_in_one_part_delays_no_other_and_the_part_runs_again() -> None:
    clock = ManualClock()
    now_ms = clock.now_ms()
    deadlines, (bad, good) = watching(clock, now_ms, now_ms)
    bad.fails = True
    assert deadlines.run_due() == 1
    assert (bad.runs, good.runs) == (1, 1)
    bad.fails = False
    # The part does not run again at once, because a lasting fault would fill the log.
    assert deadlines.run_due() == 0
    clock.advance(1000)
    assert deadlines.run_due() == 1


def test_a_forgotten_part_is_not_run() -> None:
    clock = ManualClock()
    deadlines, (one,) = watching(clock, clock.now_ms())
    deadlines.forget(one)
    deadlines.forget(one)
    assert deadlines.run_due() == 0
    assert one.runs == 0


def test_a_named_part_runs_once_whether_or_not_it_is_in_the_heap() -> None:
    clock = ManualClock()
    now_ms = clock.now_ms()
    deadlines, (known, lost, later) = watching(clock, now_ms, now_ms, now_ms + 5000)
    deadlines.forget(lost)
    assert deadlines.run_due([known, lost]) == 2
    assert (known.runs, lost.runs, later.runs) == (1, 1, 0)
