"""How many entries a micro-batch takes: within the limits, and shared among topics."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.source.admission import admit
from pipeline.source.offsets import Offsets
from pipeline.source.options import Limits
from pipeline.source.ranges import ranges_between
from pipeline.source.topic_logs import TopicLog
from tests.unit.pipeline.memory_log import MemoryIndex, memory_log

LARGEST = (5, 900)
entries = st.lists(st.tuples(st.integers(1, LARGEST[0]), st.integers(1, LARGEST[1])), max_size=12)
topics = st.lists(st.lists(entries, min_size=1, max_size=3), min_size=1, max_size=4)
limit = st.none() | st.integers(1, 60)
limits = st.builds(
    lambda rows, size_bytes, entries: Limits(
        rows=rows, size_bytes=size_bytes and size_bytes * 50, entries=entries
    ),
    limit,
    limit,
    limit,
)


def logs_of(index: MemoryIndex, ledgers: list[list[list[tuple[int, int]]]]) -> list[TopicLog]:
    return [
        memory_log(index, each, name=f"t{number}", first_ledger=100 * number, messages_before=7)
        for number, each in enumerate(ledgers)
    ]


def amounts(
    index: MemoryIndex, logs: list[TopicLog], starts: Offsets, ends: Offsets
) -> list[tuple[int, int, int]]:
    """Return the rows, bytes and entries between the offsets, topic by topic."""
    found = []
    for log in logs:
        start, end = starts[log.topic.name], ends[log.topic.name]
        ranges = list(ranges_between(index, log, start, end))
        rows = (end.messages or 0) - (start.messages or 0)
        found.append((rows, sum(part.size_bytes for part in ranges), sum(part.entries for part in ranges)))
    return found


@given(ledgers=topics, limits=limits)
def test_micro_batches_keep_the_limits_and_reach_the_end(
    ledgers: list[list[list[tuple[int, int]]]], limits: Limits
) -> None:
    index = MemoryIndex()
    logs = logs_of(index, ledgers)
    starts = {log.topic.name: log.earliest for log in logs}
    latest = {log.topic.name: log.latest for log in logs}
    seen = 0
    while starts != latest:
        ends = admit(index, logs, starts, latest, limits)
        taken = amounts(index, logs, starts, ends)
        assert all(ends[name].position >= starts[name].position for name in starts)
        # Each topic that has something to read gets an entry, even beyond the limit.
        assert all(
            (amount[2] > 0) == (starts[log.topic.name] != latest[log.topic.name])
            for log, amount in zip(logs, taken, strict=True)
        )
        single = [amount for amount in taken if amount[2] != 1]
        for number, most in enumerate((limits.rows, limits.size_bytes, limits.entries)):
            assert most is None or sum(amount[number] for amount in single) <= most
        seen += sum(amount[2] for amount in taken)
        starts = ends
    assert seen == sum(len(entries) for each in ledgers for entries in each)


def test_topics_share_a_limit_in_proportion_to_their_unread_messages() -> None:
    index = MemoryIndex()
    logs = logs_of(index, [[[(1, 10)] * 90], [[(1, 10)] * 10]])
    starts = {log.topic.name: log.earliest for log in logs}
    latest = {log.topic.name: log.latest for log in logs}
    ends = admit(index, logs, starts, latest, Limits(rows=50, size_bytes=None, entries=None))
    assert [amount[0] for amount in amounts(index, logs, starts, ends)] == [45, 5]
