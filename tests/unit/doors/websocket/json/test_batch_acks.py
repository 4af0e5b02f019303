"""Acks of batch members as acks of entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.websocket.json.batch_acks import MAX_BATCH_SIZE, BatchAcks, EntryAck
from broker.doors.websocket.json.errors import InvalidCommand
from vela.wire.message_id import MessageId


def member(index: int, size: int, entry: int = 5) -> MessageId:
    return MessageId(1, entry, batch_index=index, batch_size=size)


def entry_ack(remaining: int | None, entry: int = 5) -> EntryAck:
    return EntryAck(ledger_id=1, entry_id=entry, remaining=remaining)


def test_a_message_sent_alone_is_its_entry() -> None:
    for tracker in (BatchAcks(), BatchAcks(batch_index_acks=False)):
        assert tracker.individual([MessageId(1, 5)]) == [entry_ack(None)]


@pytest.mark.row("S4.6")
def test_an_ack_of_one_member_leaves_the_others_unacked() -> None:
    tracker = BatchAcks()
    assert tracker.individual([member(1, 3)]) == [entry_ack(0b101)]
    assert tracker.partly_acked == 0


def test_members_of_one_frame_become_one_ack_for_each_entry_in_order() -> None:
    acks = BatchAcks().individual(
        [member(0, 2, 9), member(1, 3), member(1, 2, 9), member(1, 3), member(2, 3)]
    )
    assert acks == [entry_ack(None, 9), entry_ack(0b001)]


@pytest.mark.row("S0.26", "S4.7")
def test_without_batch_index_acks_only_the_last_member_acks_the_entry() -> None:
    tracker = BatchAcks(batch_index_acks=False)
    assert tracker.individual([member(0, 3), member(2, 3)]) == []
    assert tracker.individual([member(2, 3)]) == []
    assert tracker.partly_acked == 1
    assert tracker.individual([member(1, 3)]) == [entry_ack(None)]
    assert tracker.partly_acked == 0


def test_redelivery_starts_the_batch_again() -> None:
    tracker = BatchAcks(batch_index_acks=False)
    tracker.individual([member(0, 2)])
    tracker.forget(1, 5)
    tracker.forget(1, 5)
    assert tracker.individual([member(1, 2)]) == []
    assert tracker.individual([member(0, 2)]) == [entry_ack(None)]


@pytest.mark.row("S4.6", "S4.7")
def test_only_the_delivered_members_of_a_batch_need_an_ack() -> None:
    tracker = BatchAcks(batch_index_acks=False)
    tracker.delivered(1, 5, 0b101)
    assert tracker.individual([member(0, 3)]) == []
    assert tracker.individual([member(2, 3)]) == [entry_ack(None)]
    assert tracker.partly_acked == 0
    tracker.delivered(1, 6, 0b011)
    assert tracker.cumulative(member(0, 3, 6)) == entry_ack(0b111, 6)
    assert tracker.cumulative(member(1, 3, 6)) == entry_ack(None, 6)
    with_index = BatchAcks()
    with_index.delivered(1, 5, 0b101)
    assert with_index.partly_acked == 0


def test_partly_acked_entries_are_bounded() -> None:
    tracker = BatchAcks(batch_index_acks=False, max_entries=2)
    for entry in range(5):
        tracker.individual([member(0, 2, entry)])
    assert tracker.partly_acked == 2
    assert tracker.individual([member(1, 2, 4)]) == [entry_ack(None, 4)]
    for entry in range(5):
        tracker.delivered(1, entry, 0b01)
    assert tracker.partly_acked == 2


def test_the_entry_acked_longest_ago_is_forgotten_first() -> None:
    tracker = BatchAcks(batch_index_acks=False, max_entries=2)
    # Entry 1 is acked again before entry 3 comes, which makes the tracker forget entry 2.
    for index, entry in [(0, 1), (0, 2), (1, 1), (0, 3)]:
        assert tracker.individual([member(index, 3, entry)]) == []
    assert tracker.individual([member(2, 3, 1)]) == [entry_ack(None, 1)]


def test_a_cumulative_ack_inside_a_batch_acks_its_members_up_to_there() -> None:
    assert BatchAcks().cumulative(member(1, 4)) == entry_ack(0b1100)
    assert BatchAcks().cumulative(member(3, 4)) == entry_ack(None)
    assert BatchAcks().cumulative(MessageId(1, 5)) == entry_ack(None)


@pytest.mark.row("S4.7")
def test_without_batch_index_acks_a_cumulative_ack_inside_a_batch_leaves_the_whole_entry() -> None:
    tracker = BatchAcks(batch_index_acks=False)
    tracker.individual([member(0, 2, 4), member(0, 4), member(0, 2, 6)])
    assert tracker.cumulative(member(1, 4)) == entry_ack(0b1111)
    assert tracker.partly_acked == 2  # entry 4 is done; entries 5 and 6 are not
    assert tracker.cumulative(member(3, 4)) == entry_ack(None)
    assert tracker.partly_acked == 1


@pytest.mark.parametrize(
    "bad", [member(3, 3), member(0, 0), member(5, 2), member(0, MAX_BATCH_SIZE + 1), member(0, 2**31 - 1)]
)
def test_impossible_members_are_refused_and_nothing_is_recorded(bad: MessageId) -> None:
    tracker = BatchAcks(batch_index_acks=False)
    with pytest.raises(InvalidCommand):
        tracker.individual([member(0, 2, 1), bad])
    with pytest.raises(InvalidCommand):
        tracker.cumulative(bad)
    assert tracker.partly_acked == 0


def test_ids_that_disagree_about_the_size_are_refused() -> None:
    with pytest.raises(InvalidCommand):
        BatchAcks().individual([member(0, 3), member(4, 5)])


@given(size=st.integers(1, 70), data=st.data(), batch_index_acks=st.booleans())
def test_any_order_of_frames_ends_where_the_set_of_acks_says(
    size: int, data: st.DataObject, batch_index_acks: bool
) -> None:
    frames = data.draw(st.lists(st.lists(st.integers(0, size - 1))))
    tracker = BatchAcks(batch_index_acks=batch_index_acks)
    cursor = (1 << size) - 1  # the entry's ack set, into which each update is ANDed
    for frame in frames:
        for ack in tracker.individual([member(index, size) for index in frame]):
            cursor &= ack.remaining or 0
    acked = {index for frame in frames for index in frame}
    expected = sum(1 << i for i in range(size) if i not in acked)
    if batch_index_acks or not expected:
        assert cursor == expected
    else:
        assert cursor == (1 << size) - 1
