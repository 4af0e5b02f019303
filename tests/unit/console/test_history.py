"""Charts from points: which points are read, what a gap means, and how a sparkline is drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.history import roll_up
from console.history.series import Level, Reading, Step, steps, thinned
from console.history.sparkline import HEIGHT, WIDTH, BacklogPoint, sparkline
from console.history.windows import RESOLUTIONS_S, WINDOWS, frame_of, spans, unread, window_of

NOW_MS = 1_700_000_003_500
HOUR = frame_of(WINDOWS["1h"], NOW_MS)
UNKNOWN = Level()


def reading(step: int, messages: int = 0, *, before: int = 0, after: int = 0, **more: Any) -> Reading:
    """Return a point of the topic in one step of the hour."""
    return Reading(
        **{
            "at_ms": HOUR.from_ms + step * HOUR.step_ms,
            "topic_id": 1,
            "subscription_id": 0,
            "messages_in": messages,
            "bytes_in": messages * 10,
            "messages_out": messages,
            "messages_acked": messages,
            "messages_redelivered": 0,
            "backlog_before": before,
            "backlog": after,
            "backlog_most": max(before, after),
            "stored_bytes": 100,
            "ack_latencies": None,
            **more,
        }
    )


def drawn(*readings: Reading, now: Level = UNKNOWN, **more: Any) -> tuple[Step, ...]:
    """Return the chart's steps for a topic's hour."""
    return steps(HOUR, readings, readings, now=now, **more)


def backlogs(found: tuple[Step, ...], *places: int) -> list[int | None]:
    return [found[place].backlog_messages for place in places]


def test_hours_before_the_subject_was_created_are_unknown() -> None:
    made_ms = HOUR.from_ms + 10 * HOUR.step_ms
    found = drawn(reading(12, 5, before=3, after=8), now=Level(backlog_messages=8), known_from_ms=made_ms)
    assert backlogs(found, 0, 9, 10, 11, 12, 13) == [None, None, 3, 3, 8, 8]
    assert (found[9].message_rate_in, found[10].message_rate_in) == (None, 0)
    quiet = drawn(now=Level(backlog_messages=8), known_from_ms=made_ms)
    assert backlogs(quiet, 9, 10) == [None, 8]


def test_the_console_knows_the_resolutions_that_are_stored() -> None:
    assert RESOLUTIONS_S == roll_up.RESOLUTIONS_S


@given(
    name=st.sampled_from([*WINDOWS, "", "'; --"]),
    is_sum=st.booleans(),
    now_ms=st.integers(1_600_000_000_000, 1_900_000_000_000),
    lags=st.lists(st.integers(0, 40 * 24 * 360), min_size=3, max_size=3),
)
def test_a_frame_ends_now_and_its_time_is_read_once(
    name: str, is_sum: bool, now_ms: int, lags: list[int]
) -> None:
    frame = frame_of(window_of(name, is_sum=is_sum), now_ms)
    window = frame.window
    assert window.steps <= 400
    assert 0 <= now_ms - frame.to_ms < 12_000
    assert frame.from_ms % frame.step_ms == 0
    last_ms = frame.from_ms + (window.steps - 1) * frame.step_ms
    assert last_ms < frame.to_ms <= last_ms + frame.step_ms
    until, at_ms = {}, now_ms
    for resolution_s, lag in zip(RESOLUTIONS_S[1:], lags, strict=True):
        at_ms = (at_ms - lag * 10_000) // (resolution_s * 1000) * resolution_s * 1000
        until[resolution_s] = at_ms
    read = [
        (*spans(frame, until)[resolution_s], resolution_s * 1000) for resolution_s in reversed(RESOLUTIONS_S)
    ]
    for begin_ms, end_ms, bucket_ms in read:
        assert begin_ms <= end_ms
        assert end_ms - begin_ms <= 1_501 * bucket_ms
        assert begin_ms == end_ms or begin_ms % bucket_ms == 0
    for (_, end_ms, _), (begin_ms, _, _) in pairwise(read):
        assert begin_ms >= end_ms - 3_600_000  # the frame leaves out no more than it must
    assert read[-1][1] == frame.to_ms


def test_long_points_come_first_and_short_ones_fill_the_rest() -> None:
    frame = frame_of(WINDOWS["24h"], NOW_MS)
    end_600, end_60 = frame.to_ms // 600_000 * 600_000 - 600_000, frame.to_ms // 60_000 * 60_000 - 60_000
    assert spans(frame, {60: end_60, 600: end_600, 3600: 0}) == {
        3600: (frame.from_ms, frame.from_ms),
        600: (frame.from_ms, end_600),
        60: (end_600, end_60),
        10: (end_60, frame.to_ms),
    }


def test_time_that_is_not_read_is_known_to_the_chart() -> None:
    frame = frame_of(WINDOWS["24h"], NOW_MS)
    end_600 = frame.from_ms + 3_600_000
    ((from_ms, to_ms),) = unread(frame, {60: end_600, 600: end_600})
    assert from_ms == end_600
    assert to_ms == spans(frame, {60: end_600, 600: end_600})[10][0]
    assert 0 <= frame.to_ms - 15_000_000 - to_ms < 10_000
    assert unread(frame, {60: frame.to_ms // 60_000 * 60_000, 600: end_600}) == ()
    assert unread(HOUR, {}) == ()


def test_steps_that_are_not_read_are_unknown_and_those_after_them_do_not_go_on_from_before() -> None:
    begin_ms, end_ms = HOUR.from_ms + 5 * HOUR.step_ms, HOUR.from_ms + 8 * HOUR.step_ms - 1
    before, after = reading(3, 20, before=5, after=9), reading(20, 10, before=70, after=60)
    found = drawn(before, after, now=Level(backlog_messages=60, stored_bytes=50), unread=[(begin_ms, end_ms)])
    assert backlogs(found, 0, 3, 4, 5, 7, 8, 19, 20) == [5, 9, 9, None, None, 70, 70, 60]
    assert [step.message_rate_in for step in found[3:9]] == [2.0, 0, None, None, None, 0]
    assert [found[place].stored_bytes for place in (4, 8, 20)] == [100, None, 100]
    quiet = drawn(before, now=Level(backlog_messages=60, stored_bytes=50), unread=[(begin_ms, end_ms)])
    assert backlogs(quiet, 4, 7, 8, 359) == [9, None, 60, 60]
    assert quiet[8].stored_bytes == 50
    idle = drawn(now=Level(backlog_messages=60, stored_bytes=50), unread=[(begin_ms, end_ms)])
    assert backlogs(idle, 0, 4, 7, 8) == [None, None, None, 60]


def test_a_gap_means_that_nothing_changed() -> None:
    found = drawn(reading(3, 20, before=5, after=9), reading(6, 0, before=9, after=2))
    assert backlogs(found, 0, 2, 3, 4, 5, 6, 7, 359) == [5, 5, 9, 9, 9, 2, 2, 2]
    assert [step.message_rate_in for step in found[2:5]] == [0, 2.0, 0]
    assert [step.byte_rate_in for step in found[2:5]] == [0, 20.0, 0]
    assert [step.backlog_most_messages for step in found[5:8]] == [9, 9, 2]
    assert [step.stored_bytes for step in found[2:5]] == [None, 100, 100]


def test_without_a_point_the_current_value_applies_to_the_whole_time() -> None:
    found = drawn(now=Level(backlog_messages=7, stored_bytes=70))
    assert {(step.backlog_messages, step.stored_bytes, step.message_rate_in) for step in found} == {
        (7, 70, 0)
    }
    assert {step.backlog_messages for step in drawn()} == {None}


def test_an_unknown_value_is_not_0() -> None:
    found = drawn(reading(3, 20, before=5, after=9), known_until_ms=HOUR.from_ms + 5 * HOUR.step_ms)
    assert found[4].message_rate_in == 0
    assert found[5] == Step(at_ms=found[5].at_ms, **dict.fromkeys(list(Step.__dataclass_fields__)[1:]))
    missed = reading(3, 20, backlog_before=None, backlog=None, backlog_most=None, stored_bytes=None)
    assert backlogs(drawn(missed, reading(5, 1, before=3, after=4)), 0, 3, 4, 5) == [None, None, None, 4]


def test_a_subscription_shows_its_topics_incoming_rate() -> None:
    own = replace(
        reading(2, 10, before=1, after=2),
        subscription_id=7,
        messages_in=None,
        bytes_in=None,
        stored_bytes=None,
    )
    found = steps(HOUR, [own], [reading(2, 50), reading(4, 30)], now=UNKNOWN)
    assert [(step.message_rate_in, step.message_rate_acked) for step in found[2:5]] == [
        (5, 1),
        (0, 0),
        (3, 0),
    ]


def test_the_last_step_s_rate_is_of_the_time_that_it_has_lasted() -> None:
    frame = frame_of(WINDOWS["24h"], 1_700_000_400_000 + 62_000)  # one of the last step's ten minutes is over
    point = replace(reading(0, 30), at_ms=1_700_000_400_000)
    assert steps(frame, [point], [point], now=UNKNOWN)[-1].message_rate_in == 0.5


def test_the_last_step_s_rate_is_of_the_time_of_which_the_numbers_are_known() -> None:
    frame = frame_of(WINDOWS["24h"], 1_700_000_400_000 + 112_000)
    point = replace(reading(0, 30), at_ms=1_700_000_400_000)
    rolled_up_ms = 1_700_000_400_000 + 60_000
    found = steps(frame, [point], [point], now=UNKNOWN, known_until_ms=rolled_up_ms)
    assert found[-1].message_rate_in == 0.5


@given(
    points=st.dictionaries(
        st.integers(0, 359), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=40
    ),
    most=st.integers(1, 400),
)
def test_the_thinned_table_has_all_messages_of_the_points(
    points: dict[int, tuple[int, int]], most: int
) -> None:
    found = drawn(*(reading(step, messages, after=after) for step, (messages, after) in points.items()))
    rows = thinned(found, most)
    assert len(rows) <= most
    total = sum(messages for messages, _ in points.values())
    assert sum(step.message_rate_in or 0 for step in found) * 10 == pytest.approx(total)
    assert rows[-1].backlog_messages == found[-1].backlog_messages
    peaks = [step.backlog_most_messages for step in found if step.backlog_most_messages is not None]
    assert max((row.backlog_most_messages or 0 for row in rows), default=0) == max(peaks, default=0)


def test_an_unfinished_step_counts_by_its_time_in_the_thinned_table() -> None:
    frame = frame_of(WINDOWS["24h"], 1_700_000_400_000 + 62_000)  # one of the last step's ten minutes is over
    points = [
        replace(reading(0, messages), at_ms=frame.to_ms - ago_ms)
        for messages, ago_ms in ((6000, 660_000), (6000, 60_000))
    ]
    found = steps(frame, points, points, now=UNKNOWN)
    assert [step.message_rate_in for step in found[-2:]] == [10, 100]
    assert thinned(found[-2:], 1)[0].message_rate_in == pytest.approx(12_000 / 660)


def line(*points: tuple[int, int | None, int | None, int | None], now: int | None) -> Any:
    """Draw a sparkline over ten minutes. Each point is its minute and the backlog before, after and at its highest."""
    return sparkline(
        [
            BacklogPoint(
                at_ms=minute * 60_000,
                topic_id=1,
                subscription_id=0,
                backlog_before=before,
                backlog=after,
                backlog_most=most,
            )
            for minute, before, after, most in points
        ],
        now,
        from_ms=0,
        to_ms=600_000,
    )


def test_a_sparkline_is_stairs_between_the_points() -> None:
    found = line((2, 0, 50, 100), (3, 50, 100, 100), (6, 100, 0, 100), now=0)
    assert found.path == "M0 18.5H19.2V1.5H67.2V18.5H96"
    assert (found.first, found.most, found.last) == (0, 100, 0)


def test_a_sparkline_shows_nothing_from_before_its_row_was_created() -> None:
    born = (4, None, None, None)
    assert line(born, now=7).path == "M96 1.5H96"
    assert line(born, (5, 0, 100, 100), now=100).path == "M48 1.5H96"
    assert line((4, 0, 100, 100), born, now=100).path == "M38.4 1.5H96"
    assert line(born, (5, 0, 100, 100), now=100).first is None


def test_a_sparkline_of_nothing_is_flat_or_no_line() -> None:
    assert line(now=0).path == f"M0 {HEIGHT - 1.5}H{WIDTH}"
    assert line(now=7).path == "M0 1.5H96"
    assert line(now=None).path == ""


@given(
    points=st.dictionaries(st.integers(0, 9), st.tuples(*[st.integers(0, 10**12)] * 3), max_size=10),
    now=st.none() | st.integers(0, 10**12),
)
def test_a_sparkline_stays_inside_its_drawing(
    points: dict[int, tuple[int, int, int]], now: int | None
) -> None:
    path = line(*((minute, *values) for minute, values in points.items()), now=now).path
    assert re.fullmatch(r"(M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)*H96)?", path)
    xs = [float(x) for x in re.findall(r"[MH]([\d.]+)", path)]
    ys = [float(y) for y in re.findall(r"[V ]([\d.]+)", path)]
    assert xs == sorted(xs)
    assert all(0 <= x <= WIDTH for x in xs)
    assert all(0 <= y <= HEIGHT for y in ys)
