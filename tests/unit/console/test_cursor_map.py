"""The strip counts every entry once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.cursor_map import HEIGHT, cursor_map


def runs_of(indexes: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if found and found[-1][1] == index - 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return found


@given(
    begin=st.integers(0, 50),
    kept=st.integers(1, 900),
    moved=st.integers(0, 900),
    states=st.lists(st.sampled_from("adr"), max_size=900),
)
def test_states_add_up(begin: int, kept: int, moved: int, states: list[str]) -> None:
    end = begin + kept
    mark_delete = begin - 1 + min(moved, kept)
    beyond = range(mark_delete + 1, end)
    acked = {index for index, state in zip(beyond, states, strict=False) if state == "a"}
    flying = {index for index, state in zip(beyond, states, strict=False) if state == "d"}
    drawn = cursor_map(
        begin=begin,
        end=end,
        mark_delete=mark_delete,
        read=None,
        acked=runs_of(acked),
        in_flight=runs_of(flying),
    )
    assert drawn is not None
    before = mark_delete + 1 - drawn.first
    assert drawn.first >= begin
    assert drawn.last == end - 1
    assert (drawn.acked, drawn.in_flight) == (before + len(acked), len(flying))
    assert drawn.acked + drawn.in_flight + drawn.ready == end - drawn.first
    assert len(drawn.columns) <= 200
    for column in drawn.columns:
        assert abs(column.acked + column.in_flight + column.ready - HEIGHT) < 0.05


def test_nothing_kept_draws_nothing() -> None:
    assert cursor_map(begin=7, end=7, mark_delete=6, read=7, acked=[], in_flight=[]) is None


def test_ticks_lie_where_the_positions_are() -> None:
    drawn = cursor_map(begin=0, end=100, mark_delete=-1, read=50, acked=[], in_flight=[])
    assert drawn is not None
    assert [(tick.name, tick.percent) for tick in drawn.ticks] == [("mark-delete", 0.0), ("read", 50.0)]
