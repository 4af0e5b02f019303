"""Filters that Spark pushes down, with which a read leaves out entries and messages.

Spark applies every filter again to the rows that it gets. So a filter here may pass too many rows, never too few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

__all__ = ["ANY", "EVERYTHING", "Interval", "ReadFilter", "read_filter"]

T = TypeVar("T", str, bytes)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval of whole numbers, both ends included; None = no bound."""

    least: int | None = None
    most: int | None = None

    def has(self, number: int) -> bool:
        """Return whether a number lies within the interval."""
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def and_(self, other: Interval) -> Interval:
        """Return the numbers that are in both."""
        least = [each.least for each in (self, other) if each.least is not None]
        most = [each.most for each in (self, other) if each.most is not None]
        return Interval(least=max(least, default=None), most=min(most, default=None))


ANY: Final = Interval()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFilter:
    """The messages that a read needs. The read may return other messages too."""

    numbers: dict[str, Interval] = field(default_factory=dict)  # by column; times in microseconds since 1970
    topics: frozenset[str] | None = None  # None = all topics
    keys: frozenset[bytes] | None = None  # None = all messages, also those without a key

    def interval(self, column: str) -> Interval:
        """Return the numbers or times that a read needs in a column."""
        return self.numbers.get(column, ANY)

    def interval_ms(self, column: str) -> Interval:
        """Return the times that a read needs in a column, in milliseconds: stored times are whole milliseconds."""
        times_us = self.interval(column)
        return Interval(
            least=None if times_us.least is None else -(-times_us.least // 1000),
            most=None if times_us.most is None else times_us.most // 1000,
        )

    def and_(self, column: str, numbers: Interval) -> ReadFilter:
        """Return the filter with a bound on a column."""
        return replace(self, numbers={**self.numbers, column: self.interval(column).and_(numbers)})


EVERYTHING: Final = ReadFilter()
_NUMBERS: Final = ("__partition", "__ledgerId", "__entryId")
_TIMES: Final = ("__publishTime", "__appendTime")


def read_filter(filters: Iterable[Filter]) -> ReadFilter:
    """Return the messages that a read needs if all these filters apply. Ignores filters that it cannot use."""
    narrowed = EVERYTHING
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        if column in _NUMBERS or column in _TIMES:
            numbers = _interval(each)
            if numbers is not None:
                narrowed = narrowed.and_(column, numbers)
        elif column == "__topic":
            topics = _equals(each, str)
            if topics is not None:
                narrowed = replace(narrowed, topics=_both(narrowed.topics, topics))
        elif column == "__key":
            keys = _equals(each, bytes)
            if keys is not None:
                narrowed = replace(narrowed, keys=_both(narrowed.keys, keys))
    return narrowed


def _interval(each: Filter) -> Interval | None:
    if isinstance(each, In):
        numbers = [_number(value) for value in each.value]
        known = [number for number in numbers if number is not None]
        return Interval(least=min(known), most=max(known)) if known and len(known) == len(numbers) else None
    number = _number(getattr(each, "value", None))
    if number is None:
        return None
    match each:
        case EqualTo() | EqualNullSafe():
            return Interval(least=number, most=number)
        case GreaterThan() | GreaterThanOrEqual():
            return Interval(least=number + isinstance(each, GreaterThan))
        case LessThan() | LessThanOrEqual():
            return Interval(most=number - isinstance(each, LessThan))
    return None


def _number(value: object) -> int | None:
    """Return a number, or the microseconds of a time; None for others, for example a time without a zone."""
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // _MICROSECOND
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _equals(each: Filter, type_: type[T]) -> frozenset[T] | None:
    if isinstance(each, In):
        values = each.value
    elif isinstance(each, EqualTo | EqualNullSafe):
        values = (each.value,)
    else:
        return None
    return frozenset(values) if all(isinstance(value, type_) for value in values) else None


def _both(one: frozenset[T] | None, other: frozenset[T]) -> frozenset[T]:
    return other if one is None else one & other
