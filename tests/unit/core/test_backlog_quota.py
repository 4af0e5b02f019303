"""When a backlog breaches its quota, and how far an eviction goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.backlog_quota import Backlog, QuotaKind, breach_of, eviction_target
from broker.core.cursor.cursor import Cursor
from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.ledgers.message_index import MessageIndex
from broker.core.position import EARLIEST, Position

BACKLOGS = st.lists(
    st.builds(
        Backlog,
        subscription=st.sampled_from("abc"),
        size_bytes=st.integers(0, 100),
        age_ms=st.integers(0, 100),
    ),
    max_size=4,
)


@given(BACKLOGS, st.integers(-1, 100), st.integers(-1, 100))
def test_a_breach_names_the_worst_subscription_over_its_quota(
    backlogs: list[Backlog], quota_bytes: int, quota_ms: int
) -> None:
    breach = breach_of(backlogs, quota_bytes=quota_bytes, quota_ms=quota_ms)
    waiting = [each for each in backlogs if each.size_bytes]
    too_large = quota_bytes >= 0 and any(each.size_bytes > quota_bytes for each in waiting)
    too_old = quota_ms >= 0 and any(each.age_ms > quota_ms for each in waiting)
    assert (breach is not None) == (too_large or too_old)
    if breach is not None:
        assert breach.kind is (QuotaKind.SIZE if too_large else QuotaKind.AGE)
        worst = max(each.size_bytes if too_large else each.age_ms for each in waiting)
        assert breach.is_now == worst > breach.limit
        assert breach.subscription in str(breach)
        assert str(breach.is_now) in str(breach)


def test_an_empty_backlog_is_within_every_quota() -> None:
    idle = Backlog(subscription="s", size_bytes=0, age_ms=1000)
    assert breach_of([idle], quota_bytes=0, quota_ms=0) is None


@given(st.data())
def test_an_eviction_reaches_its_target_without_an_entry_too_many(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=12), min_size=1, max_size=4))
    ledgers = LedgerMap()
    index = MessageIndex(ledgers)
    entries = messages = size_bytes = 0
    for at, ledger in enumerate(sizes):
        if at:
            ledgers.seal(at)
        ledgers.add(
            LedgerInfo(
                ledger_id=at + 1, entries_before=entries, messages_before=messages, bytes_before=size_bytes
            )
        )
        cumulative: list[int] = []
        for size in ledger:
            size_bytes += size
            cumulative.append(size_bytes)
        ledgers.append(at + 1, len(ledger), len(ledger), sum(ledger), 1)
        index.record(at + 1, 0, list(range(messages + 1, messages + len(ledger) + 1)), cumulative)
        entries += len(ledger)
        messages += len(ledger)
    cursor = Cursor.starting_at(ledgers, index, EARLIEST)
    every = [Position(at + 1, entry) for at, ledger in enumerate(sizes) for entry in range(len(ledger))]
    for position in data.draw(st.lists(st.sampled_from(every), unique=True)):
        cursor.ack(position)
    leave_bytes = data.draw(st.integers(0, size_bytes))
    before = cursor.snapshot()
    target = eviction_target(cursor, ledgers, index, leave_bytes=leave_bytes)
    assert cursor.snapshot() == before
    moved = Cursor(ledgers, index, before)
    moved.move_mark_delete(target)
    assert moved.backlog_bytes <= leave_bytes or not moved.backlog_bytes
    if cursor.backlog_bytes <= leave_bytes:
        assert target == before.mark_delete
        return
    less = Cursor(ledgers, index, before)
    passed = [each for each in every if before.mark_delete < each <= target and not cursor.is_acked(each)]
    less.move_mark_delete(ledgers.previous_of(passed[-1]))
    assert less.backlog_bytes > leave_bytes
