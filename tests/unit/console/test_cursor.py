"""Bitmaps and ack sets as the broker stores them, read by the pages."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.cursors.chunk_codec import encode_ack_sets
from console.messages import lanes
from console.messages.lanes import Lane
from console.messages.states import CursorAt
from console.queries.cursor import AckedBeyond, acked_beyond, members_of, runs_of_bits
from console.queries.topics.log import LedgerRow, Log
from tests.unit.console.test_cursor_map import runs_of


@given(st.sets(st.integers(0, 5000)), st.integers(0, 10**9))
def test_runs_are_the_set_bits(indexes: set[int], base: int) -> None:
    bits = sum(1 << index for index in indexes).to_bytes(640, "little").rstrip(b"\0")
    assert list(runs_of_bits(bits, base)) == [(base + first, base + last) for first, last in runs_of(indexes)]


@given(st.dictionaries(st.integers(0, 2**40), st.integers(1, 2**200)))
def test_ack_sets_are_read_as_the_broker_writes_them(ack_sets: dict[int, int]) -> None:
    assert members_of(encode_ack_sets(ack_sets)) == ack_sets


def test_an_unknown_layout_gives_nothing() -> None:
    assert members_of(b"\x02whatever") == {}
    assert members_of(b"") == {}


@given(st.sets(st.integers(0, 300)), st.integers(0, 300), st.integers(0, 300))
def test_next_unacked_skips_acked_messages(acked: set[int], start: int, length: int) -> None:
    beyond = AckedBeyond(runs=tuple(runs_of(acked)), entries=len(acked), ack_sets={}, complete=True)
    end = start + length
    assert list(beyond.next_unacked(start, end)) == [
        index for index in range(start, end) if index not in acked
    ]


def test_next_unacked_ends_where_later_acks_are_not_known() -> None:
    beyond = AckedBeyond(runs=((3, 4), (7, 8)), entries=4, ack_sets={}, complete=False)
    assert list(beyond.next_unacked(1, 100)) == [1, 2, 5, 6]
    assert list(replace(beyond, runs=()).next_unacked(1, 100)) == []


def a_ledger(ledger_id: int, before: int, entries: int, *, segment_id: int = 1) -> LedgerRow:
    return LedgerRow(
        ledger_id=ledger_id,
        state="sealed",
        segment_id=segment_id,
        file_name=None,
        opened_ms=0,
        entries_before=before,
        messages_before=before,
        bytes_before=0,
        entries=entries,
        messages=entries,
        size_bytes=0,
        first_append_ms=0,
        last_append_ms=0,
    )


def test_acks_in_a_ledger_that_the_log_does_not_have_yet_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chunks = [
        SimpleNamespace(
            cursor_id=1, ledger_id=ledger_id, chunk=0, bits=b"\x02", ack_sets=encode_ack_sets({3: 1})
        )
        for ledger_id in (4, 9)
    ]
    monkeypatch.setattr("console.queries.cursor.fetch", lambda *_: chunks)
    found = acked_beyond(1, Log((a_ledger(4, 100, 10),)), 99)
    assert (found.runs, dict(found.ack_sets)) == (((101, 101),), {103: 1})


def test_the_browsed_entries_end_where_later_acks_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log((a_ledger(4, 0, 100),))
    cursor = CursorAt(id=1, topic_id=7, name="s", mark_delete_ledger=4, mark_delete_entry=-1, delays=False)
    lane = Lane(topic_id=7, topic_name="t", partition=-1, log=log, spans=((0, 99),), cursor=cursor)
    for runs, spans in (((), ()), (((3, 4), (7, 8)), ((0, 2), (5, 6)))):
        acked = AckedBeyond(runs=runs, entries=len(runs) * 2, ack_sets={}, complete=False)
        monkeypatch.setattr(lanes, "acked_beyond", lambda *_, acked=acked: acked)
        for only_holes in (False, True):
            assert lanes._unacked(lane, only_holes=only_holes).spans == spans


def test_indexes_run_on_across_ledgers() -> None:
    log = Log((a_ledger(4, 100, 10), a_ledger(9, 110, 0), a_ledger(12, 110, 5)))
    assert (log.begin, log.end, log.total_messages) == (100, 115, 115)
    assert log.index_of(4, 0) == 100
    assert log.index_of(12, -1) == 109
    assert log.index_of(12, 5) == 115
    assert log.index_of(2, 77) == 99
    assert log.index_of(10, 3) == 109
    assert [log.place_at(index) for index in (99, 100, 109, 110, 114, 115)] == [
        None,
        (4, 0),
        (4, 9),
        (12, 0),
        (12, 4),
        None,
    ]


def test_a_position_in_a_last_ledger_that_was_trimmed_is_before_the_next_entry() -> None:
    log = Log((a_ledger(4, 1000, 0), a_ledger(5, 1000, 3)))
    assert log.index_of(4, 999) == 999
    assert log.index_of(5, 0) == 1000
    assert not log.has_ledger(4)
    assert log.has_ledger(5)


def test_an_empty_log_has_no_place() -> None:
    log = Log(())
    assert (log.begin, log.end, log.total_messages, log.place_at(0)) == (0, 0, 0, None)
