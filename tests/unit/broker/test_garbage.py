"""When the broker collects the garbage of all generations."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from broker.process import garbage
from broker.process.garbage import AT_LEAST_S, GROWTH_BYTES, PAUSE_SHARE, FullCollections
from tests.support.manual_timers import ManualTimers


class Machine:
    """A process in which a collection takes a given time, and whose memory a test sets."""

    def __init__(self, timers: ManualTimers, *, takes_s: float) -> None:
        self.timers = timers
        self.takes_s = takes_s
        self.peak_bytes = 0
        self.count = 0
        self._late_s = 0.0
        self.collections = FullCollections(
            call_later=timers.call_later_in_loop,
            now_s=self.now_s,
            peak_bytes=lambda: self.peak_bytes,
            collect=self.collect,
        )

    def now_s(self) -> float:
        return self.timers.now_ms() / 1000 + self._late_s

    def collect(self) -> None:
        self.count += 1
        self._late_s += self.takes_s

    def run(self, seconds: float) -> int:
        """Let time pass, and return how often everything was collected."""
        before = self.count
        self.timers.advance(round(1000 * seconds))
        return self.count - before


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def started(*, takes_s: float) -> Machine:
    machine = Machine(ManualTimers(), takes_s=takes_s)
    machine.collections.start()
    return machine


async def test_python_itself_collects_only_young_objects() -> None:
    started(takes_s=0)
    assert gc.get_threshold() == (garbage.YOUNG_OBJECTS, garbage.YOUNG_COLLECTIONS, 1 << 30)


async def test_a_short_collection_comes_every_few_seconds() -> None:
    assert started(takes_s=0.001).run(10 * AT_LEAST_S) == 10


async def test_long_collections_take_a_small_part_of_the_time() -> None:
    takes_s = 0.1
    machine = started(takes_s=takes_s)
    machine.run(AT_LEAST_S)
    assert 9 <= machine.run(10 * PAUSE_SHARE * takes_s) <= 10


async def test_growing_memory_is_collected_earlier_and_memory_that_stays_is_not() -> None:
    machine = started(takes_s=0.1)
    machine.run(AT_LEAST_S)
    machine.peak_bytes += GROWTH_BYTES
    assert machine.run(5) == 1
    assert machine.run(5) == 0


async def test_nothing_is_collected_after_the_stop() -> None:
    machine = started(takes_s=0)
    machine.collections.stop()
    machine.collections.stop()
    assert machine.run(100) == 0


def test_the_peak_of_this_process_is_plausible() -> None:
    assert 10 << 20 < garbage.peak_memory_bytes() < 1 << 36
