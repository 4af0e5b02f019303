"""Which consumer of a subscription differs from the others."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from console.diagnosis.outliers import outliers

NOW_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A consumer that works like the others."""

    key: int
    subscription_type: str = "Shared"
    unacked_messages: int = 20
    oldest_delivered_ms: int = NOW_MS - 2000
    message_rate_out: float = 8.0
    message_rate_acked: float = 8.0
    message_rate_redelivered: float = 0.0


USUAL = (Row(key=1), Row(key=2), Row(key=3))


@pytest.mark.parametrize(
    ("odd", "marks"),
    [
        (Row(key=9), {}),
        (Row(key=9, unacked_messages=81), {"unacked": "20"}),
        (Row(key=9, unacked_messages=80), {}),
        (Row(key=9, oldest_delivered_ms=NOW_MS - 60_000), {"oldest": "2\u202fs"}),
        (Row(key=9, oldest_delivered_ms=0), {}),
        (Row(key=9, message_rate_out=1.9, message_rate_acked=0.0), {"out": "8.0/s", "acked": "8.0/s"}),
        (Row(key=9, message_rate_out=2.0), {}),
        (Row(key=9, message_rate_redelivered=1.5), {"redelivered": "0/s"}),
        (Row(key=9, message_rate_redelivered=0.9), {}),
    ],
)
def test_a_value_far_from_the_median_is_marked_with_the_median(odd: Row, marks: dict[str, str]) -> None:
    assert outliers([*USUAL, odd], now_ms=NOW_MS) == ({9: marks} if marks else {})


def test_two_consumers_or_an_active_and_its_standby_are_not_compared() -> None:
    odd = Row(key=9, unacked_messages=5000)
    assert outliers([USUAL[0], odd], now_ms=NOW_MS) == {}
    standby = Row(key=8, subscription_type="Failover", unacked_messages=0)
    assert outliers([*USUAL[:1], standby, odd], now_ms=NOW_MS) == {}
    assert outliers([], now_ms=NOW_MS) == {}
