"""Filters of a Spark query as bounds on positions, partitions, times, keys and topics."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pipeline.source.filters import ANY, EVERYTHING, Interval, read_filter

T = datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=UTC)  # 1,000,500 us


def test_filters_on_positions_and_partitions_become_bounds() -> None:
    wanted = read_filter(
        [
            GreaterThan(("__ledgerId",), 4),
            LessThanOrEqual(("__ledgerId",), 9),
            In(("__partition",), (3, 1)),
            LessThan(("__entryId",), 7),
            GreaterThanOrEqual(("__entryId",), 3),
        ]
    )
    assert wanted.interval("__ledgerId") == Interval(least=5, most=9)
    assert wanted.interval("__partition") == Interval(least=1, most=3)
    assert wanted.interval("__entryId") == Interval(least=3, most=6)


def test_times_are_rounded_so_that_nothing_is_lost() -> None:
    between = read_filter([GreaterThanOrEqual(("__appendTime",), T), LessThan(("__publishTime",), T)])
    assert between.interval_ms("__appendTime") == Interval(least=1001)
    assert between.interval_ms("__publishTime") == Interval(most=1000)
    assert read_filter([GreaterThan(("__appendTime",), T)]).interval_ms("__appendTime").has(1001)
    assert read_filter([EqualTo(("__appendTime",), T.replace(tzinfo=None))]) == EVERYTHING


def test_filters_choose_keys_and_topics() -> None:
    wanted = read_filter(
        [
            In(("__key",), (b"a", b"b")),
            EqualTo(("__key",), b"b"),
            EqualTo(("__topic",), "persistent://a/b/c"),
        ]
    )
    assert wanted.keys == frozenset({b"b"})
    assert wanted.topics == frozenset({"persistent://a/b/c"})


def test_other_filters_change_nothing() -> None:
    others: list[Filter] = [
        Not(EqualTo(("__ledgerId",), 4)),
        IsNotNull(("__key",)),
        StringStartsWith(("__topic",), "a"),
        EqualTo(("value",), b"x"),
        In(("__ledgerId",), (1, None)),
        In(("__key",), (b"a", None)),
        EqualTo(("__partition",), True),
    ]
    assert read_filter(others) == EVERYTHING
    assert EVERYTHING.interval("__ledgerId") == ANY
