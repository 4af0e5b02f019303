"""The tracker of delayed entries, compared with plain Python as a model."""

from __future__ import annotations

import gc
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.position_set import PositionSet
from broker.core.delayed import DelayedEntries, DueEntry, next_ready
from broker.core.position import EARLIEST, Position
from tests.unit.core.logs import Log

positions = st.builds(Position, st.integers(0, 2), st.integers(0, 3000))


@given(st.lists(st.tuples(st.sampled_from("adb"), positions)))
def test_a_position_set_behaves_like_a_set(steps: list[tuple[str, Position]]) -> None:
    found, model = PositionSet(), set[Position]()
    for step, position in steps:
        if step == "a":
            assert found.add(position) == (position not in model)
            model.add(position)
        elif step == "d":
            assert found.discard(position) == (position in model)
            model.discard(position)
        else:
            below = {each for each in model if each < position}
            assert found.discard_before(position) == len(below)
            model -= below
        assert (len(found), position in found) == (len(model), position in model)
    assert list(found) == sorted(model)
    found.clear()
    assert list(found) == []


class DelayedMachine(RuleBasedStateMachine):
    """The tracker with its table, whose rows are those that the append's statement has written."""

    def __init__(self) -> None:
        super().__init__()
        self.delayed = DelayedEntries(window=4)
        self.rows: set[DueEntry] = set()
        self.unstored: set[DueEntry] = set()
        self.waiting: dict[Position, int] = {}
        self.read: list[DueEntry] | None = None
        self.next_entry = 0
        self.now_ms = 0

    def _entry(self, delay_ms: int) -> DueEntry:
        entry = DueEntry(self.now_ms + delay_ms, 1, self.next_entry)
        self.next_entry += 1
        self.waiting[Position(1, entry.entry_id)] = entry.due_ms
        return entry

    @rule(delay_ms=st.integers(1, 50))
    def append(self, delay_ms: int) -> None:
        entry = self._entry(delay_ms)
        self.rows.add(entry)
        self.delayed.add(entry)

    @rule(delay_ms=st.integers(1, 50))
    def met_early(self, delay_ms: int) -> None:
        entry = self._entry(delay_ms)
        self.unstored.add(entry)
        self.delayed.add(entry, stored=False)

    @rule()
    def start_refill(self) -> None:
        """Take the snapshot of a query whose answer comes later."""
        if self.delayed.needs_refill:
            after = self.delayed.begin_refill()
            self.read = sorted(row for row in self.rows if row > after)[:4]

    @rule(fails=st.booleans())
    def end_refill(self, fails: bool) -> None:
        if self.read is None:
            return
        if fails:
            self.delayed.give_up_refill()
        else:
            self.delayed.refill(self.read, is_all=len(self.read) < 4)
        self.read = None

    @rule(by_ms=st.integers(0, 20), most=st.integers(1, 5))
    def time_passes(self, by_ms: int, most: int) -> None:
        self.now_ms += by_ms
        while True:
            self.start_refill()
            self.end_refill(fails=False)
            popped = self.delayed.pop_due(self.now_ms, most=most)
            for position in popped:
                assert self.waiting.pop(position, 0) <= self.now_ms, "never early"
            if not popped and not self.delayed.needs_refill:
                break
        assert all(due_ms > self.now_ms for due_ms in self.waiting.values()), "never forgotten"
        through_ms = self.delayed.popped_through_ms(self.now_ms)
        assert all(
            row.due_ms > through_ms or Position(1, row.entry_id) not in self.waiting for row in self.rows
        )
        self.rows = {row for row in self.rows if row.due_ms > through_ms}

    @rule()
    def restart(self) -> None:
        self.delayed = DelayedEntries(window=4)
        self.read = None
        self.waiting = {p: due for p, due in self.waiting.items() if DueEntry(due, *p) in self.rows}
        self.delayed.load(1, [row.entry_id for row in self.rows])
        self.delayed.horizon = DueEntry(0, 0, 0)

    @invariant()
    def waits_for_what_it_should(self) -> None:
        if self.read is None:
            assert set(self.waiting) <= set(self.delayed.waiting)
            assert self.delayed.near_entries <= 2 * 4 + len(self.unstored) + 4


TestDelayedMachine = DelayedMachine.TestCase
TestDelayedMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


@given(
    st.lists(st.sampled_from("awx"), min_size=1, max_size=60),
    st.lists(st.integers(1, 40), max_size=3),
    st.integers(0, 60),
)
def test_next_ready_finds_what_a_walk_over_all_entries_finds(
    kinds: list[str], rolls: list[int], start: int
) -> None:
    log, waiting = Log(), PositionSet()
    cursor = Cursor.starting_at(log.ledgers, log.index, EARLIEST)
    stored: list[Position] = []
    for at, _ in enumerate(kinds):
        if at in rolls:
            log.roll()
        stored.append(log.publish())
    for kind, position in zip(kinds, stored, strict=True):
        if kind == "a":
            cursor.ack(position)
        elif kind == "w":
            waiting.add(position)
    begin = stored[start] if start < len(stored) else log.ledgers.end()
    ready = [
        position
        for kind, position in zip(kinds, stored, strict=True)
        if position >= begin and kind == "x" and not cursor.is_acked(position)
    ]
    assert next_ready(cursor, waiting, begin) == (ready[0] if ready else log.ledgers.end())


def test_next_ready_walks_blocks_not_entries() -> None:
    log, waiting = Log(indexed=False), PositionSet()
    entries = 300_000
    log.ledgers.append(1, entries, entries, entries, 1)
    log.index.record(1, 0, range(1, entries + 1), range(1, entries + 1))
    cursor = Cursor.starting_at(log.ledgers, log.index, EARLIEST)
    for entry_id in range(0, entries, 2):
        waiting.add(Position(1, entry_id))
        cursor.ack(Position(1, entry_id + 1))
    calls: list[str] = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        found = next_ready(cursor, waiting, Position(1, 0))
    finally:
        sys.setprofile(None)
    assert found == Position(1, entries)
    assert len(calls) < entries / 10


def held_bytes(root: object) -> int:
    """Return the size of everything that the object refers to.

    tracemalloc finds the same number, but would make the test take 11 s.
    """
    found: dict[int, object] = {}
    left = [root]
    while left:
        each = left.pop()
        if id(each) not in found and not isinstance(each, type):
            found[id(each)] = each
            left += gc.get_referents(each)
    return sum(map(sys.getsizeof, found.values()))


@pytest.mark.row("I15")
def test_a_million_waiting_entries_fit_in_a_few_megabytes() -> None:
    delayed = DelayedEntries()
    for entry_id in range(1_000_000):
        delayed.add(DueEntry(1_700_000_000_000 + entry_id * 7 % 1_000_003, 12, entry_id))
    assert len(delayed) == 1_000_000
    assert 1_000_000 / 8 < held_bytes(delayed) < 4 * 1024 * 1024
