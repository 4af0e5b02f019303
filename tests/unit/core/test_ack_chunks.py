"""Counting the entries acked beyond a position gives the same as listing them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.cursor.ack_chunks import AckChunks
from broker.core.ledgers.message_index import CHUNK_ENTRIES
from broker.core.position import LATEST, Position

POSITIONS = st.builds(
    Position,
    st.integers(1, 3),
    st.one_of(
        st.integers(-1, 70),
        st.integers(CHUNK_ENTRIES - 70, CHUNK_ENTRIES + 70),
        st.integers(2 * CHUNK_ENTRIES - 3, 2 * CHUNK_ENTRIES + 3),
    ),
)


@given(st.lists(POSITIONS.filter(lambda position: position.entry_id >= 0), max_size=60), POSITIONS)
def test_a_count_equals_the_number_of_listed_entries(acked: list[Position], after: Position) -> None:
    chunks = AckChunks()
    for position in acked:
        chunks.add(*position)
    assert chunks.count(after) == sum(last - first + 1 for _, first, last in chunks.runs(after, LATEST))
    assert chunks.count(after) == len({position for position in acked if position > after})
