"""Compare the consumers of one subscription to find outliers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final, Protocol

from console.diagnosis.pace import SHARED
from console.words.numerals import count, rate, span

__all__ = ["outliers"]

_LEAST_CONSUMERS: Final = 3  # With two consumers, it is unclear which one is the outlier
_TIMES: Final = 4.0  # An outlier differs from the median by more than this factor
_LEAST_MESSAGES: Final = 10.0
_LEAST_AGE_S: Final = 5.0
_LEAST_PER_S: Final = 1.0


class Compared(Protocol):
    """The consumer fields that this module reads."""

    @property
    def key(self) -> int: ...
    @property
    def subscription_type(self) -> str: ...
    @property
    def unacked_messages(self) -> int: ...
    @property
    def oldest_delivered_ms(self) -> int: ...
    @property
    def message_rate_out(self) -> float: ...
    @property
    def message_rate_acked(self) -> float: ...
    @property
    def message_rate_redelivered(self) -> float: ...


def outliers(consumers: Sequence[Compared], *, now_ms: int) -> Mapping[int, Mapping[str, str]]:
    """Find the consumers whose values are far from the median.

    The outer key is the consumer's key. The inner key is a column, and its value is the column's median as text.
    """
    if len(consumers) < _LEAST_CONSUMERS or any(each.subscription_type not in SHARED for each in consumers):
        return {}
    found: dict[int, dict[str, str]] = {}

    def compare(
        column: str,
        value: Callable[[Compared], float],
        least: float,
        write: Callable[[float], str],
        *,
        low: bool,
    ) -> None:
        middle = median(value(each) for each in consumers)
        for each in consumers:
            own = value(each)
            is_high = not low and own >= least and own > _TIMES * middle
            if is_high or (low and middle >= least and own * _TIMES < middle):
                found.setdefault(each.key, {})[column] = write(middle)

    def age_s(each: Compared) -> float:
        return max(0, now_ms - each.oldest_delivered_ms) / 1000 if each.oldest_delivered_ms else 0.0

    compare("unacked", lambda each: each.unacked_messages, _LEAST_MESSAGES, _whole, low=False)
    compare("oldest", age_s, _LEAST_AGE_S, span, low=False)
    compare("out", lambda each: each.message_rate_out, _LEAST_PER_S, rate, low=True)
    compare("acked", lambda each: each.message_rate_acked, _LEAST_PER_S, rate, low=True)
    compare("redelivered", lambda each: each.message_rate_redelivered, _LEAST_PER_S, rate, low=False)
    return found


def _whole(number: float) -> str:
    return count(round(number))
