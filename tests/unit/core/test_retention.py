"""Which ledgers retention may delete: the rule on its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ledgers.ledger import LedgerInfo
from broker.core.ledgers.retention import Retention, TrimLimits, trimmable

NOW_MS = 1_000_000
FOR_EVER = Retention(time_ms=-1, size_bytes=-1)
NOTHING = Retention(time_ms=0, size_bytes=0)
NOBODY = TrimLimits(acked_entries=None)


def ledgers(*sizes: int, age_ms: int = 10, sealed: int | None = None) -> list[LedgerInfo]:
    """Return ledgers of 10 entries each, the oldest first. The first `sealed` are sealed, or all but the last."""
    closed = len(sizes) - 1 if sealed is None else sealed
    return [
        LedgerInfo(
            ledger_id=number + 1,
            entries=10 if size else 0,
            entries_before=10 * number,
            size_bytes=size,
            sealed=number < closed,
            last_append_ms=NOW_MS - age_ms * (len(sizes) - number),
        )
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        (FOR_EVER, 0),
        (NOTHING, 3),
        (Retention(time_ms=25, size_bytes=-1), 2),  # the ledgers are 40, 30 and 20 ms old
        (Retention(time_ms=40, size_bytes=-1), 0),  # a ledger of exactly that age stays
        (Retention(time_ms=-1, size_bytes=250), 2),  # 400 and then 300 bytes are too much; 200 are not
        (Retention(time_ms=-1, size_bytes=400), 1),
        (Retention(time_ms=-1, size_bytes=401), 0),
        (Retention(time_ms=35, size_bytes=250), 2),  # either limit is enough
        (Retention(time_ms=25, size_bytes=1000), 2),
        (Retention(time_ms=0, size_bytes=-1), 3),
    ],
)
def test_the_oldest_ledgers_beyond_time_or_size_are_deleted_up_to_the_first_that_must_stay(
    retention: Retention, gone: int
) -> None:
    assert trimmable(ledgers(100, 100, 100, 100), retention=retention, limits=NOBODY, now_ms=NOW_MS) == gone


@pytest.mark.parametrize(("acked", "gone"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (40, 3)])
def test_a_ledger_with_one_unacked_entry_pins_itself_and_all_later_ones(acked: int, gone: int) -> None:
    limits = TrimLimits(acked_entries=acked)
    assert trimmable(ledgers(100, 100, 100, 100), retention=NOTHING, limits=limits, now_ms=NOW_MS) == gone


@pytest.mark.parametrize(("quota", "gone"), [(-1, 1), (300, 1), (299, 2), (0, 3)])
def test_retained_ledgers_are_deleted_while_the_topic_is_beyond_its_quota(quota: int, gone: int) -> None:
    limits = TrimLimits(acked_entries=None, pinned_entries=10, pinned_bytes=quota)
    found = trimmable(ledgers(100, 100, 100, 100), retention=NOTHING, limits=limits, now_ms=NOW_MS)
    assert found == gone


def test_an_empty_ledger_before_the_last_goes_and_an_emptied_last_one_is_not_counted_again() -> None:
    assert trimmable(ledgers(0, 100), retention=FOR_EVER, limits=NOBODY, now_ms=NOW_MS) == 1
    assert trimmable(ledgers(0, sealed=1), retention=NOTHING, limits=NOBODY, now_ms=NOW_MS) == 0
    assert trimmable(ledgers(100, sealed=1), retention=NOTHING, limits=NOBODY, now_ms=NOW_MS) == 1


@pytest.mark.row("I19")
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    time_ms=st.integers(-1, 100),
    size_bytes=st.integers(-1, 1500),
    acked=st.none() | st.integers(0, 90),
    held=st.none() | st.integers(0, 90),
    quota=st.integers(-1, 1500),
)
def test_trimming_never_passes_the_slowest_mark_delete_or_the_retention(
    sizes: list[int], time_ms: int, size_bytes: int, acked: int | None, held: int | None, quota: int
) -> None:
    infos = ledgers(*sizes)
    retention = Retention(time_ms=time_ms, size_bytes=size_bytes)
    limits = TrimLimits(acked_entries=acked, pinned_entries=held, pinned_bytes=quota)
    gone = trimmable(infos, retention=retention, limits=limits, now_ms=NOW_MS)
    assert gone < len(infos)  # the open ledger stays
    kept_bytes = sum(sizes)
    for info in infos[:gone]:
        if info.entries:
            assert acked is None or info.entries_before + info.entries <= acked
            is_old = 0 <= time_ms < NOW_MS - info.last_append_ms
            assert is_old or 0 <= size_bytes <= kept_bytes
            assert held is None or info.entries_before + info.entries <= held or 0 <= quota < kept_bytes
        kept_bytes -= info.size_bytes
