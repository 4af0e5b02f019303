"""Acks that are gathered and sent together, checked against a model of the broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.acks.batch_acks import MAX_BATCH_SIZE
from vela.core.acks.grouping import ALL_ACKED, AckGrouping, NoAckGrouping

SIZES = (0, 1, 2, 3, 7, 0, 70)  # messages of the entries; 0 = not a batch


def full(entry: int) -> int:
    return (1 << max(SIZES[entry], 1)) - 1


class Subscription:
    """What the broker knows about the acks that reached it."""

    def __init__(self) -> None:
        self.remaining = [full(entry) for entry in range(len(SIZES))]

    def ack(self, grouping: AckGrouping) -> None:
        taken = grouping.take()
        if taken is None:
            return
        if taken.cumulative is not None:
            _, through, kept = taken.cumulative
            self.remaining[: through + (kept is None)] = [0] * (through + (kept is None))
            if kept is not None:
                self.remaining[through] &= kept
        for _, entry, kept in taken.individual:
            assert kept != 0, "an entry that is done is acked whole"
            self.remaining[entry] &= kept or 0
        positions = [ack[:2] for ack in taken.individual]
        assert positions == sorted(set(positions))


class Application:
    """Model of an application that acks the messages it holds."""

    def __init__(self, batch_index_acks: bool) -> None:
        self.batch_index_acks = batch_index_acks
        self.grouping = AckGrouping(batch_index_acks=batch_index_acks)
        self.broker = Subscription()
        # Bits of the messages that the application has acked since they were last delivered to it.
        self.acked = [0] * len(SIZES)
        self.is_link_lost = False  # the last command may be lost with the link

    def ack(self, entry: int, index: int) -> None:
        size = SIZES[entry]
        bit = 1 << (index % size) if size else 1
        done = self.grouping.add(1, entry, index % size if size else -1, size)
        self.acked[entry] |= bit
        if done:
            assert self.acked[entry] == full(entry)

    def ack_cumulatively(self, entry: int, index: int) -> None:
        size = SIZES[entry]
        self.grouping.add_cumulative(1, entry, index % size if size else -1, size)
        for before in range(entry):
            self.acked[before] = full(before)
        self.acked[entry] |= (1 << (index % size + 1)) - 1 if size else 1

    def known_acked(self) -> list[int]:
        """Return the acks that the broker must learn of: without batch-index acks, only those of whole entries."""
        if self.batch_index_acks:
            return self.acked
        return [bits if bits == full(entry) else 0 for entry, bits in enumerate(self.acked)]

    def send(self) -> None:
        if not self.is_link_lost:
            self.broker.ack(self.grouping)
            assert len(self.grouping) == 0

    def lose(self) -> None:
        if not self.is_link_lost:
            self.grouping.take()
            self.is_link_lost = True

    def reconnect(self) -> None:
        self.grouping.attached()
        for entry, remaining in enumerate(self.broker.remaining):
            if not remaining:
                continue
            size = SIZES[entry]
            if size:
                self.grouping.delivered(1, entry, size, remaining if remaining != full(entry) else None)
            pending = self.grouping.acked_messages(1, entry)
            shown = remaining & ~(full(entry) if pending == ALL_ACKED else pending)
            unacked = full(entry) & ~self.known_acked()[entry]
            assert shown & unacked == unacked, "what is not acked is shown again"
            assert self.is_link_lost or shown == unacked, "what is acked is not"
            self.acked[entry] &= ~shown
        self.is_link_lost = False


steps = st.lists(
    st.tuples(
        st.sampled_from(["ack", "ack", "ack", "cumulative", "send", "lose", "reconnect"]),
        st.integers(0, len(SIZES) - 1),
        st.integers(0, 69),
    ),
    max_size=80,
)


@pytest.mark.row("S4.4", "S4.6", "S4.7", "S4.14")
@given(steps, st.booleans())
def test_the_broker_learns_of_every_ack_and_of_nothing_else(
    steps: list[tuple[str, int, int]], batch_index_acks: bool
) -> None:
    application = Application(batch_index_acks)
    broker = application.broker
    for step, entry, index in steps:
        if step == "ack":
            application.ack(entry, index)
        elif step == "cumulative":
            application.ack_cumulatively(entry, index)
        elif step == "send":
            application.send()
        elif step == "lose":
            application.lose()
        else:
            application.reconnect()
        for number, acked in enumerate(application.known_acked()):
            assert full(number) & ~broker.remaining[number] & ~acked == 0, "acked what nobody acked"
    if application.is_link_lost:
        application.reconnect()
    application.send()
    assert [
        full(number) & ~remaining for number, remaining in enumerate(broker.remaining)
    ] == application.known_acked()
    assert application.grouping.take() is None


@pytest.mark.row("S0.26")
@pytest.mark.parametrize("batch_index_acks", [True, False])
def test_only_the_last_message_of_a_batch_acks_its_entry(batch_index_acks: bool) -> None:
    grouping = AckGrouping(batch_index_acks=batch_index_acks)
    assert [grouping.add(5, 6, index, 10) for index in range(9)] == [False] * 9
    taken = grouping.take()
    assert (taken is None) is not batch_index_acks
    assert grouping.add(5, 6, 9, 10)
    assert grouping.take() == (None, [(5, 6, None)])


@pytest.mark.row("S4.7")
def test_a_batch_that_is_too_large_is_refused_with_the_way_to_ack_it() -> None:
    grouping = AckGrouping(batch_index_acks=True)
    grouping.add(1, 1, 0, MAX_BATCH_SIZE)
    for size in (MAX_BATCH_SIZE + 1, 1 << 31):
        for ack in (grouping.add, grouping.add_cumulative):
            with pytest.raises(
                ValueError, match=r"at most 1048576.*MessageId\(partition, ledger_id, entry_id\)"
            ):
                ack(1, 2, 0, size)
    assert grouping.add(1, 2)


def test_a_cumulative_ack_inside_a_batch_acks_the_entry_before_it_once() -> None:
    grouping = AckGrouping(batch_index_acks=False)
    assert grouping.add_cumulative(5, 6, 3, 10) == (5, 5)
    assert grouping.take() == ((5, 5, None), [])
    assert grouping.add_cumulative(5, 6, 8, 10) is None
    assert grouping.take() is None
    assert grouping.add_cumulative(5, 6, 9, 10) == (5, 6)
    assert grouping.take() == ((5, 6, None), [])


@pytest.mark.row("S4.6")
def test_a_cumulative_ack_inside_a_batch_leaves_later_messages() -> None:
    grouping = AckGrouping()
    grouping.add(5, 6, 4, 6)
    assert grouping.add_cumulative(5, 6, 2, 6) == (5, 5)
    assert grouping.take() == ((5, 6, 0b101000), [])


@pytest.mark.row("S4.14")
def test_a_cumulative_ack_includes_earlier_single_acks() -> None:
    grouping = AckGrouping()
    grouping.add(1, 2, 0, 2)
    grouping.take()  # this ack is lost with the link
    grouping.add_cumulative(1, 2, 0, 2)
    grouping.attached()
    grouping.delivered(1, 2, 2, None)
    assert grouping.acked_messages(1, 2) == 0b01
    assert grouping.take() == ((1, 2, 0b10), [])


@pytest.mark.row("S4.7")
def test_a_redelivered_batch_must_be_acked_again() -> None:
    grouping = AckGrouping(batch_index_acks=False)
    for index in range(9):
        grouping.add(5, 6, index, 10)
    grouping.delivered(5, 6, 10, None)
    assert not grouping.add(5, 6, 9, 10)
    assert [grouping.add(5, 6, index, 10) for index in range(9)] == [False] * 8 + [True]


@pytest.mark.row("S4.6")
def test_messages_that_others_acked_are_not_waited_for() -> None:
    grouping = AckGrouping(batch_index_acks=False)
    grouping.delivered(5, 6, 10, 0b11)
    assert not grouping.add(5, 6, 0, 10)
    assert grouping.add(5, 6, 1, 10)


@pytest.mark.row("S4.9")
def test_a_thousand_ids_are_sent_at_once() -> None:
    grouping = AckGrouping()
    for entry in range(999):
        grouping.add(1, entry)
        assert not grouping.is_full
    grouping.add(1, 998)
    assert len(grouping) == 999
    grouping.add(1, 999, 0, 2)
    assert grouping.is_full
    taken = grouping.take()
    assert taken is not None
    assert len(taken.individual) == 1000
    grouping.add(1, 1)
    assert len(grouping) == 1


@pytest.mark.row("S4.10")
def test_without_a_grouping_time_every_ack_is_sent_at_once() -> None:
    grouping = AckGrouping(group_ms=0)
    grouping.add(1, 2, 0, 2)
    assert grouping.is_full
    assert grouping.take() == (None, [(1, 2, 0b10)])
    grouping.add(1, 2, 1, 2)
    assert grouping.is_full
    grouping.take()
    grouping.add_cumulative(1, 7)
    assert grouping.is_full


@pytest.mark.row("S4.11")
def test_a_message_acked_twice_is_sent_once_and_the_last_ack_of_a_batch_replaces_the_partial_ones() -> None:
    grouping = AckGrouping()
    for _ in range(2):
        grouping.add(1, 9)
        grouping.add(1, 4, 0, 2)
    assert len(grouping) == 2
    grouping.add(1, 4, 1, 2)
    grouping.add(1, 4, 1, 2)
    grouping.add(1, 2)
    assert grouping.take() == (None, [(1, 2, None), (1, 4, None), (1, 9, None)])


@pytest.mark.row("S4.11")
def test_a_cumulative_ack_replaces_the_acks_it_covers() -> None:
    grouping = AckGrouping()
    grouping.add(1, 3)
    grouping.add(1, 4, 0, 2)
    grouping.add(1, 9)
    grouping.add_cumulative(1, 5)
    assert grouping.add_cumulative(1, 2) is None
    grouping.add(1, 1)
    assert grouping.take() == ((1, 5, None), [(1, 9, None)])


@pytest.mark.row("S4.14")
def test_a_redelivery_of_a_collected_ack_is_a_duplicate() -> None:
    grouping = AckGrouping()
    assert grouping.acked_messages(1, 1) == 0
    grouping.add(1, 1)
    grouping.add(1, 2, 1, 3)
    grouping.add_cumulative(0, 7)
    grouping.attached()
    found = [
        grouping.acked_messages(*position) for position in [(1, 1), (1, 2), (0, 7), (0, 3), (0, 8), (1, 3)]
    ]
    assert found == [ALL_ACKED, 0b010, ALL_ACKED, ALL_ACKED, 0, 0]
    grouping.take()
    assert grouping.acked_messages(1, 1) == 0


@pytest.mark.row("S4.8")
def test_on_topics_that_store_nothing_acks_change_nothing() -> None:
    grouping = NoAckGrouping(group_ms=0)
    grouping.add(1, 1)
    grouping.add(1, 2, 0, 3)
    grouping.add_cumulative(1, 9)
    grouping.delivered(1, 2, 3, 0b11)
    assert (len(grouping), grouping.is_full, grouping.take(), grouping.acked_messages(1, 1)) == (
        0,
        False,
        None,
        0,
    )


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (0, 1 << 21), (1 << 31, 5)])
def test_an_id_that_no_message_has_is_refused_and_changes_nothing(index: int, size: int) -> None:
    grouping = AckGrouping()
    with pytest.raises(ValueError, match="batch of"):
        grouping.add(1, 1, index, size)
    with pytest.raises(ValueError, match="batch of"):
        grouping.add_cumulative(1, 1, index, size)
    assert grouping.take() is None
    for message in range(6):
        assert grouping.add(1, 1, message, 6) == (message == 5)


def test_an_id_whose_batch_turns_out_to_be_smaller_stops_no_later_ack() -> None:
    grouping = AckGrouping()
    grouping.add(1, 1, 9, 10)
    grouping.delivered(1, 1, 5, None)
    grouping.add(1, 2)
    taken = grouping.take()
    assert taken is not None
    assert taken.individual == [(1, 1, 0b11111), (1, 2, None)]


def test_after_a_seek_no_ack_from_before_it_is_sent() -> None:
    grouping = AckGrouping(group_ms=0)
    grouping.add(1, 1)
    grouping.add_cumulative(1, 5, 0, 3)
    grouping.clear()
    assert (grouping.take(), grouping.is_full, grouping.acked_messages(1, 1)) == (None, False, 0)


def test_nonsense_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="ack_group"):
        AckGrouping(group_ms=-1)
    with pytest.raises(ValueError, match="ack_group"):
        AckGrouping(max_ids=0)
