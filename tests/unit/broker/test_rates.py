"""Rates from cumulative counts: fast flows settle in seconds, and slow ones do not jump between 0 and too much."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.topics.rates import Rates

BEGIN_MS = 1_700_000_000_000


class Topic:
    """The values of a topic that `Rates` reads."""

    is_open = True


class Reader:
    """The values of a reader's subscription that `Rates` reads."""

    is_durable = False
    is_deleted = False
    log = SimpleNamespace(is_open=True)

    def __init__(self) -> None:
        self.consumers: dict[int, object] = {1: object()}


def reported(
    published: Callable[[float], int], *, seconds: int, every_second: bool = True
) -> tuple[list[float], Rates, Any]:
    """Return the rate after each second.

    Counts are reported every second, or only in the seconds in which they changed and those that `Rates` asks for.
    """
    rates, topic, found, last = Rates(), Topic(), [], 0
    of: Any = topic
    for second in range(seconds + 1):
        now_ms = BEGIN_MS + second * 1000
        total = published(second)
        asked = of in rates.moving(now_ms).topics
        if every_second or second == 0 or asked or total != last:
            rates.of_topic(of, total, 100 * total, now_ms)
        last = total
        found.append(rates.in_per_s(of)[0])
    return found, rates, of


@pytest.mark.parametrize("every_second", [True, False])
@pytest.mark.parametrize("gap_s", [1.5, 2.5, 4, 8])
def test_a_slow_flow_has_a_steady_rate(gap_s: float, every_second: bool) -> None:
    found, *_ = reported(lambda at_s: int(at_s / gap_s), seconds=120, every_second=every_second)
    settled = found[round(5 * gap_s) :]
    assert min(settled) > 0.7 / gap_s
    assert max(settled) < 1.4 / gap_s


@pytest.mark.parametrize("every_second", [True, False])
@pytest.mark.parametrize(("gap_s", "ends_after_s"), [(2.5, 12), (8, 30)])
def test_a_slow_flow_that_ends_has_no_rate_soon(gap_s: float, ends_after_s: int, every_second: bool) -> None:
    found, *_ = reported(lambda at_s: int(min(at_s, 40) / gap_s), seconds=100, every_second=every_second)
    assert found[40] > 0
    assert set(found[40 + ends_after_s :]) == {0.0}


def test_a_message_a_minute_is_not_reported_again() -> None:
    found, rates, topic = reported(lambda at_s: int(at_s / 60), seconds=600, every_second=False)
    assert set(found) == {0.0}
    assert topic not in rates.moving(BEGIN_MS + 10**9).topics


@pytest.mark.parametrize("per_s", [3, 100, 20_000])
def test_a_fast_flow_settles_in_five_seconds_and_ends_in_five(per_s: int) -> None:
    found, *_ = reported(lambda at_s: int(per_s * min(at_s, 30)), seconds=60, every_second=False)
    assert 0.9 * per_s < found[5] <= per_s
    assert found[29] == pytest.approx(per_s, rel=0.001)
    assert found[34] > 0
    assert set(found[35:]) == {0.0}


@pytest.mark.parametrize("every_second", [True, False])
@pytest.mark.parametrize("messages", [10, 50, 10_000])
def test_a_burst_after_a_rest_is_no_slow_flow(messages: int, every_second: bool) -> None:
    found, *_ = reported(lambda at_s: messages if at_s > 600 else 0, seconds=620, every_second=every_second)
    assert found[601] == pytest.approx(0.4 * messages)
    assert found[605] > 0
    assert set(found[606:]) == {0.0}


def test_a_flow_in_batches_keeps_its_mean() -> None:
    found, *_ = reported(lambda at_s: 200 * int(at_s / 2), seconds=60)
    settled = found[20:]
    assert sum(settled) / len(settled) == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("every_second", [True, False])
def test_a_flow_that_starts_after_a_rest_shows_at_once(every_second: bool) -> None:
    found, *_ = reported(
        lambda at_s: int(1000 * max(0.0, at_s - 600)), seconds=606, every_second=every_second
    )
    assert found[601] == pytest.approx(400)


def test_a_reader_whose_last_consumer_left_is_forgotten() -> None:
    rates, reader = Rates(), Reader()
    of: Any = reader
    for second in range(3):
        rates.of_subscription(of, 100 * second, 0, BEGIN_MS + second * 1000)
    assert rates.out_per_s(of)[0] > 0
    reader.consumers.clear()
    assert of in rates.moving(BEGIN_MS + 3000).subscriptions  # reported once more, with rate 0
    assert rates.of_subscription(of, 300, 0, BEGIN_MS + 3000) == (0.0, 0.0)
    ended = weakref.ref(reader)
    del reader, of
    for second in range(4, 64):
        rates.moving(BEGIN_MS + second * 1000)
    assert ended() is None
