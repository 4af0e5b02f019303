"""The filter of repeated sends, checked against a log to which any send may be repeated."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from broker.core.producers.deduplication import DuplicateFilter, Mark, Progress, Verdict

one = st.builds(lambda first, size: Mark(first, first + size), st.integers(0, 30), st.integers(0, 4))


def test_a_sequence_is_new_once() -> None:
    seen = DuplicateFilter()
    assert seen.admit("p", Mark(0, 0)) is Verdict.NEW
    assert seen.admit("p", Mark(0, 0)) is Verdict.IN_FLIGHT
    seen.stored("p", Mark(0, 0))
    assert seen.admit("p", Mark(0, 0)) is Verdict.STORED
    assert seen.admit("q", Mark(0, 0)) is Verdict.NEW
    assert seen.last_stored("p") == 0
    assert seen.last_stored("q") == -1


def test_a_batch_counts_by_its_last_sequence() -> None:
    seen = DuplicateFilter()
    seen.admit("p", Mark(0, 9))
    seen.stored("p", Mark(0, 9))
    assert seen.admit("p", Mark(5, 5)) is Verdict.STORED
    assert seen.admit("p", Mark(5, 14)) is Verdict.NEW, "some of it is new, and must not be lost"
    assert seen.admit("p", Mark(15, 19)) is Verdict.NEW
    assert seen.last_stored("p") == 9


def test_parts_of_a_large_message_are_known_one_by_one() -> None:
    seen = DuplicateFilter()
    parts = [Mark(7, 7, 0), Mark(7, 7, 1), Mark(7, 7, 2)]
    for part in parts:
        assert seen.admit("p", part) is Verdict.NEW
        seen.stored("p", part)
    assert seen.admit("p", parts[2]) is Verdict.STORED
    assert seen.last_stored("p") == -1, "the message is not whole yet"
    assert seen.admit("p", Mark(7, 7)) is Verdict.NEW
    seen.stored("p", Mark(7, 7))
    assert [seen.admit("p", part) for part in parts] == [Verdict.STORED] * 3
    assert seen.last_stored("p") == 7


def test_a_first_chunk_starts_the_message_again() -> None:
    seen = DuplicateFilter()
    for part in (Mark(7, 7, 0), Mark(7, 7, 1)):
        seen.admit("p", part)
        seen.stored("p", part)
    # Another program with the same producer name had sent up to message 6, and sends its own message 7.
    assert seen.admit("p", Mark(7, 7, 0)) is Verdict.NEW
    assert seen.admit("p", Mark(7, 7, 1)) is Verdict.NEW


def test_a_stored_first_chunk_does_not_hide_a_chunk_in_flight() -> None:
    """If a producer could attach again then, its second chunk would be stored before its repeated first chunk."""
    seen = DuplicateFilter()
    chunks = [Mark(7, 7, 0), Mark(7, 7, 1)]
    for chunk in chunks:
        seen.admit("p", chunk)
    seen.stored("p", chunks[0])
    assert not seen.is_settled("p")
    assert seen.admit("p", chunks[1]) is Verdict.IN_FLIGHT
    seen.stored("p", chunks[1])
    assert seen.is_settled("p")
    for chunk in chunks:  # the message is not whole, so it is sent again from its first chunk
        assert seen.admit("p", chunk) is Verdict.NEW
        seen.stored("p", chunk)
    assert seen.is_settled("p")


def test_chunks_found_in_the_log_twice_are_settled() -> None:
    seen = DuplicateFilter()
    for chunk in (Mark(7, 7, 0), Mark(7, 7, 1), Mark(7, 7, 0)):
        seen.stored("p", chunk)
    assert seen.is_settled("p")
    assert seen.admit("p", Mark(7, 7, 1)) is Verdict.NEW


def test_a_refused_message_may_be_sent_again() -> None:
    seen = DuplicateFilter()
    seen.admit("p", Mark(0, 0))
    seen.stored("p", Mark(0, 0))
    seen.admit("p", Mark(1, 1))
    assert not seen.is_settled("p")
    seen.forget_pushed()
    assert seen.is_settled("p")
    assert seen.admit("p", Mark(0, 0)) is Verdict.STORED
    assert seen.admit("p", Mark(1, 1)) is Verdict.NEW


def test_a_forgotten_name_starts_again() -> None:
    seen = DuplicateFilter()
    seen.restore("p", Progress(highest=5))
    assert seen.admit("p", Mark(5, 5)) is Verdict.STORED
    seen.forget("p")
    assert seen.names() == []
    assert seen.admit("p", Mark(5, 5)) is Verdict.NEW


@given(st.lists(st.tuples(st.sampled_from("pq"), one, st.booleans())))
def test_no_entry_is_stored_twice_and_nothing_new_is_dropped(
    sends: list[tuple[str, Mark, bool]],
) -> None:
    """A send is a producer, a message, and whether everything sent so far then becomes durable."""
    seen = DuplicateFilter()
    log: list[tuple[str, Mark]] = []
    queue: list[tuple[str, Mark]] = []
    for name, mark, commits in sends:
        highest = max((each.highest for other, each in [*log, *queue] if other == name), default=-1)
        verdict = seen.admit(name, mark)
        assert (verdict is Verdict.NEW) is (mark.highest > highest)
        if verdict is Verdict.NEW:
            queue.append((name, mark))
        stored = max((each.highest for other, each in log if other == name), default=-1)
        assert (verdict is Verdict.STORED) is (mark.highest <= stored)
        if commits:
            for each in queue:
                seen.stored(*each)
            log += queue
            queue = []
    for name in "pq":
        marks = [each for other, each in [*log, *queue] if other == name]
        assert len(set(marks)) == len(marks)
        assert all(later.highest > earlier.highest for earlier, later in pairwise(marks))
        assert seen.is_settled(name) is not any(other == name for other, _ in queue)


@given(st.lists(st.tuples(st.sampled_from("pq"), one)))
def test_reading_the_log_again_gives_the_same_state(sends: list[tuple[str, Mark]]) -> None:
    seen, again = DuplicateFilter(), DuplicateFilter()
    log = [each for each in sends if seen.admit(*each) is Verdict.NEW]
    for each in log:
        seen.stored(*each)
        again.stored(*each)
    for name, mark in sends:
        assert again.admit(name, mark) is Verdict.STORED
        assert again.progress(name) == seen.progress(name)
