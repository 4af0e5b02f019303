"""Ledger maps: order, borders, neighbours, totals, rollover."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.ledgers.rollover import RolloverPolicy, must_roll
from broker.core.position import EARLIEST, LATEST, Position


def map_of(sizes: dict[int, int], *, sealed: bool = False) -> LedgerMap:
    """Return ledgers with this many entries of 2 messages and 10 bytes each. All but the last are sealed."""
    ledgers = LedgerMap()
    for ledger_id, entries in sizes.items():
        if len(ledgers):
            ledgers.seal(ledgers.infos()[-1].ledger_id)
        ledgers.add(
            LedgerInfo(
                ledger_id=ledger_id,
                entries_before=ledgers.total_entries,
                messages_before=ledgers.total_messages,
                bytes_before=ledgers.total_bytes,
            )
        )
        if entries:
            ledgers.append(ledger_id, entries, 2 * entries, 10 * entries, append_ms=5)
    if sealed:
        ledgers.seal(max(sizes))
    return ledgers


maps = st.dictionaries(st.integers(1, 9), st.integers(0, 3), min_size=1, max_size=5).map(
    lambda sizes: dict(sorted(sizes.items()))
)
positions = st.builds(Position, st.integers(-1, 10), st.integers(-1, 4)) | st.sampled_from([EARLIEST, LATEST])


@given(maps, positions, positions, st.booleans())
def test_neighbours_are_those_in_the_list_of_entries(
    sizes: dict[int, int], at: Position, other: Position, sealed: bool
) -> None:
    ledgers = map_of(sizes, sealed=sealed)
    stored = [Position(ledger_id, e) for ledger_id, entries in sizes.items() for e in range(entries)]
    last_id = max(sizes)
    end = Position(last_id, sizes[last_id])
    before = Position(min(sizes), -1)
    assert ledgers.end() == end
    assert ledgers.first_position() == (stored[0] if stored else end)
    assert ledgers.last_position() == (stored[-1] if stored else before)
    assert ledgers.contains(at) == (at in stored)
    assert ledgers.next_after(at) == next((p for p in stored if p > at), end)
    assert ledgers.next_valid(at) == next((p for p in stored if p >= at), end)
    assert ledgers.previous_of(at) == next((p for p in reversed(stored) if p < at), before)
    assert ledgers.floor(at) == next((p for p in reversed(stored) if p <= at), before)
    assert ledgers.entries_through(at) == sum(p <= at for p in stored)
    assert ledgers.entries_between(at, other) == sum(at < p <= other for p in stored)
    spans = [Position(i, e) for i, a, b in ledgers.spans(at, other) for e in range(a, b + 1)]
    assert spans == [p for p in stored if at < p <= other]


def test_an_empty_map_has_no_ledger_and_no_totals() -> None:
    ledgers = LedgerMap()
    assert ledgers.last_position() == EARLIEST
    assert ledgers.open_ledger() is None
    assert (ledgers.total_messages, ledgers.total_bytes, ledgers.total_entries) == (0, 0, 0)
    assert ledgers.first_position() == ledgers.end() == ledgers.next_after(LATEST)


def test_trimmed_ledgers_stay_in_the_totals() -> None:
    ledgers = map_of({1: 3, 4: 2, 5: 1})
    dropped = ledgers.drop_first(2)
    assert [info.ledger_id for info in dropped] == [1, 4]
    assert (ledgers.total_entries, ledgers.total_messages, ledgers.total_bytes) == (6, 12, 60)
    assert ledgers.entries_through(Position(4, 1)) == 5
    assert LedgerMap(ledgers.infos()).total_messages == 12
    with pytest.raises(ValueError, match="one of them is open"):
        ledgers.drop_first()


def test_only_the_open_ledger_takes_entries() -> None:
    ledgers = map_of({1: 1, 2: 0})
    opened = ledgers.open_ledger()
    assert opened is not None
    assert (opened.ledger_id, opened.first_append_ms) == (2, 0)
    with pytest.raises(ValueError, match="not open"):
        ledgers.append(1, 1, 1, 1, append_ms=1)
    with pytest.raises(ValueError, match="not above"):
        ledgers.add(LedgerInfo(ledger_id=2))
    with pytest.raises(ValueError, match="seal it"):
        ledgers.add(LedgerInfo(ledger_id=3))
    with pytest.raises(ValueError, match="not known"):
        ledgers.seal(9)
    assert ledgers.seal(2) == ledgers.seal(2)
    assert ledgers.open_ledger() is None


POLICY = RolloverPolicy(max_entries=100, max_bytes=1000, min_age_ms=600, max_age_ms=5000)
FULL = LedgerInfo(ledger_id=1, entries=100, size_bytes=10, opened_ms=1000)


@pytest.mark.parametrize(
    ("info", "now_ms", "rolls"),
    [
        (FULL, 1599, False),
        (FULL, 1600, True),
        (replace(FULL, entries=99), 1600, False),
        (replace(FULL, entries=1, size_bytes=1000), 1600, True),
        (replace(FULL, entries=1), 5999, False),
        (replace(FULL, entries=1), 6000, True),
        (replace(FULL, entries=0), 99_999, False),
    ],
)
def test_a_ledger_rolls_over_at_its_limits(info: LedgerInfo, now_ms: int, rolls: bool) -> None:
    assert must_roll(info, POLICY, now_ms) is rolls


def test_without_limits_a_ledger_never_rolls_over() -> None:
    policy = RolloverPolicy(max_entries=None, max_bytes=None, min_age_ms=0, max_age_ms=None)
    assert not must_roll(replace(FULL, entries=10**9), policy, 10**9)
