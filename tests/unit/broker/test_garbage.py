"""When the broker collects the garbage of all generations."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from broker.process import garbage
from broker.process.garbage import (
    ALL_AT_LEAST_S,
    ALL_GROWING_SHARE,
    ALL_GROWTH_BYTES,
    ALL_SHARE,
    AT_LEAST_S,
    GROWTH_BYTES,
    PAUSE_SHARE,
    FullCollections,
)
from tests.support.manual_timers import ManualTimers


class Machine:
    """A process in which collections take given times, and whose memory a test sets."""

    def __init__(self, timers: ManualTimers, *, takes_s: float, all_takes_s: float) -> None:
        self.timers = timers
        self.takes_s = takes_s
        self.all_takes_s = all_takes_s
        self.peak_bytes = 0
        self.count = 0
        self.all_count = 0
        self._late_s = 0.0
        self.collections = FullCollections(
            call_later=timers.call_later_in_loop,
            now_s=self.now_s,
            peak_bytes=lambda: self.peak_bytes,
            collect_new=self.collect,
            collect_all=self.collect_all,
        )

    def now_s(self) -> float:
        return self.timers.now_ms() / 1000 + self._late_s

    def collect(self) -> None:
        self.count += 1
        self._late_s += self.takes_s

    def collect_all(self) -> None:
        self.all_count += 1
        self._late_s += self.all_takes_s

    def run(self, seconds: float) -> int:
        """Let time pass, and return how often new objects were collected."""
        before = self.count
        self.timers.advance(round(1000 * seconds))
        return self.count - before


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def started(*, takes_s: float, all_takes_s: float = 0.0) -> Machine:
    machine = Machine(ManualTimers(), takes_s=takes_s, all_takes_s=all_takes_s)
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


async def test_all_objects_are_collected_much_less_often() -> None:
    machine = started(takes_s=0.001, all_takes_s=0.8)
    machine.run(ALL_AT_LEAST_S)
    assert machine.all_count == 1
    machine.run(ALL_SHARE * 0.8 - 10)
    assert machine.all_count == 1
    machine.run(20)
    assert machine.all_count == 2


async def test_all_objects_are_collected_earlier_if_memory_grows_much() -> None:
    machine = started(takes_s=0.001, all_takes_s=0.8)
    machine.peak_bytes += ALL_GROWTH_BYTES
    machine.run(1)
    assert machine.all_count == 1
    machine.peak_bytes += ALL_GROWTH_BYTES
    machine.run(ALL_GROWING_SHARE * 0.8 - 10)
    assert machine.all_count == 1
    machine.run(20)
    assert machine.all_count == 2


class Cycle:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.me = self


async def test_a_cycle_that_survived_a_collection_is_freed_by_one_of_all_objects() -> None:
    timers = ManualTimers()
    FullCollections(call_later=timers.call_later_in_loop, now_s=lambda: timers.now_ms() / 1000).start()
    try:
        cycle = Cycle()
        watched = weakref.ref(cycle)
        timers.advance(round(1000 * AT_LEAST_S))  # puts the object aside
        del cycle
        timers.advance(round(1000 * AT_LEAST_S))
        assert watched() is not None
        timers.advance(round(1000 * ALL_AT_LEAST_S))
        assert watched() is None
    finally:
        gc.unfreeze()


async def test_nothing_is_collected_after_the_stop() -> None:
    machine = started(takes_s=0)
    machine.collections.stop()
    machine.collections.stop()
    assert machine.run(100) == 0


def test_the_peak_of_this_process_is_plausible() -> None:
    assert 10 << 20 < garbage.peak_memory_bytes() < 1 << 36
