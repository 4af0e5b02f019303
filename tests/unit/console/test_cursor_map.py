"""The strip counts every entry once, and says at which consumer it is."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from console.cursor_map.counting import COLOURS, Flight, unacked
from console.cursor_map.strip import HEIGHT, WIDTH, cursor_map


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
    states=st.lists(st.sampled_from("ar0123456789"), max_size=900),
)
def test_the_states_of_the_strip_add_up_to_all_entries(
    begin: int, kept: int, moved: int, states: list[str]
) -> None:
    end = begin + kept
    mark_delete = begin - 1 + min(moved, kept)
    state_of = dict(zip(range(mark_delete + 1, end), states, strict=False))
    acked = {index for index, state in state_of.items() if state == "a"}
    flying = {index: f"c{state}" for index, state in state_of.items() if state.isdigit()}
    drawn = cursor_map(
        begin=begin,
        end=end,
        mark_delete=mark_delete,
        read=None,
        acked=runs_of(acked),
        in_flight=[Flight(consumer=name, first=index, last=index) for index, name in flying.items()],
    )
    assert drawn is not None
    before = mark_delete + 1 - drawn.first
    assert drawn.first >= begin
    assert drawn.last == end - 1
    assert (drawn.acked, drawn.in_flight) == (before + len(acked), len(flying))
    assert drawn.acked + drawn.in_flight + drawn.ready == end - drawn.first
    assert len(drawn.columns) <= 200
    for column in drawn.columns:
        assert abs(column.acked + sum(bar.height for bar in column.in_flight) + column.ready - HEIGHT) < 0.1
    assert [part.first for part in drawn.parts[1:]] == [part.last + 1 for part in drawn.parts[:-1]]
    assert (drawn.parts[0].first, drawn.parts[-1].last) == (drawn.first, drawn.last)
    assert abs(sum(part.width for part in drawn.parts) - WIDTH) < 0.5
    shown = Counter[str]()
    for part in drawn.parts:
        shown.update({share.consumer: share.entries for share in part.in_flight})
    largest = dict(Counter(flying.values()).most_common(COLOURS))
    assert {name: number for name, number in shown.items() if name} == largest
    assert shown.total() == len(flying)


def test_acked_entries_inside_a_delivery_are_not_in_flight() -> None:
    drawn = cursor_map(
        begin=0,
        end=1000,
        mark_delete=99,
        read=121,
        acked=[(105, 109), (115, 119)],
        in_flight=[Flight(consumer="c", first=100, last=120)],
    )
    assert drawn is not None
    assert (drawn.in_flight, drawn.ready) == (11, 879)
    assert [share.entries for share in drawn.shares] == [11]


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_a_delivery_is_in_flight_where_it_is_not_acked(delivered: set[int], acked: set[int]) -> None:
    flights = [Flight(consumer="c", first=first, last=last) for first, last in runs_of(delivered)]
    left = [index for each in unacked(flights, runs_of(acked)) for index in range(each.first, each.last + 1)]
    assert left == sorted(delivered - acked)


def test_a_log_without_entries_has_no_strip() -> None:
    assert cursor_map(begin=7, end=7, mark_delete=6, read=7, acked=[], in_flight=[]) is None


def test_ticks_lie_where_the_positions_are() -> None:
    drawn = cursor_map(begin=0, end=100, mark_delete=-1, read=50, acked=[], in_flight=[])
    assert drawn is not None
    assert [(tick.name, tick.percent) for tick in drawn.ticks] == [("mark-delete", 0.0), ("read", 50.0)]


def test_each_consumer_has_a_colour_and_many_share_one() -> None:
    drawn = cursor_map(
        begin=0,
        end=100,
        mark_delete=-1,
        read=None,
        acked=[],
        in_flight=[Flight(consumer=f"c{number % 9}", first=number, last=number) for number in range(20)],
    )
    assert drawn is not None
    assert [(share.consumer, share.colour, share.entries) for share in drawn.shares] == [
        ("c0", 1, 3), ("c1", 2, 3), ("c2", 3, 2), ("c3", 4, 2), ("c4", 5, 2), ("c5", 6, 2), ("", 0, 6),
    ]  # fmt: skip
    assert {bar.colour for column in drawn.columns for bar in column.in_flight} == set(range(7))
