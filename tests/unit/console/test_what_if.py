"""The estimate of how long a backlog takes to drain with another number of consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.diagnosis.what_if import WhatIf, what_if
from console.words.said import Said

NOW_MS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A consumer that has been connected for a long time and works."""

    connected_ms: int = 0
    permits: int = 10
    unacked_messages: int = 1
    last_flow_ms: int = NOW_MS
    last_delivery_ms: int = NOW_MS
    last_ack_ms: int = NOW_MS


IDLE = Row(permits=0, last_flow_ms=0, last_delivery_ms=0, last_ack_ms=0)
STARVED = Row(unacked_messages=0, last_flow_ms=0, last_delivery_ms=0, last_ack_ms=0)


def found(**changes: Any) -> WhatIf | Said:
    """Two consumers ack 10/s together, 14/s arrive, and 600 messages wait."""
    return what_if(
        **{
            "type_": "Shared",
            "backlog_messages": 600,
            "rate_in": 14.0,
            "rate_acked": 10.0,
            "drain_s": None,
            "connected": 2,
            "consumers": [Row(), Row()],
            "now_ms": NOW_MS,
            **changes,
        }
    )


def estimate(**changes: Any) -> WhatIf:
    result = found(**changes)
    assert isinstance(result, WhatIf), result
    return result


def test_more_consumers_drain_a_backlog_that_grows_now() -> None:
    result = estimate()
    assert (result.working, result.needed, result.each_acks_per_s) == (2, 3, 5.0)
    words = [each.words.replace("\u202f", " ") for each in result.choices[:4]]
    assert words == [
        "With 1 consumer: the backlog grows by 9.0/s.",
        "With 2 consumers: the backlog grows by 4.0/s.",
        "With 3 consumers: about 10 min to go.",
        "With 4 consumers: about 2 min to go.",
    ]
    assert result.choices[2].drain_s == 600
    assert result.choices[3].drain_s == 100


def test_the_time_for_the_present_consumers_is_the_one_that_the_broker_estimates() -> None:
    result = estimate(drain_s=300)
    assert result.each_acks_per_s == 8.0
    assert result.choices[1].drain_s == 300


def test_a_backlog_that_barely_drains_stays_about_as_it_is() -> None:
    result = estimate(rate_in=15.05)
    assert result.choices[2].drain_s is None
    assert result.choices[2].words == "With 3 consumers: the backlog hardly changes."
    assert result.needed == 4


def test_idle_consumers_do_none_of_the_work() -> None:
    result = estimate(consumers=[Row(), Row(), IDLE], connected=3)
    assert (result.working, result.each_acks_per_s) == (2, 5.0)


def test_consumers_that_are_not_listed_work_too() -> None:
    result = estimate(connected=1000, rate_acked=1000.0, rate_in=1200.0)
    assert (result.working, result.needed) == (1000, 1213)
    assert [result.choices[0].consumers, result.choices[-1].consumers] == [991, 1030]
    assert result.chosen(None).consumers == 1030


@pytest.mark.parametrize(("asked", "shown"), [(None, 3), (1, 1), (7, 7), (10**15, 10)])
def test_the_shown_choice_is_the_one_nearest_to_the_requested_number(asked: int | None, shown: int) -> None:
    assert estimate().chosen(asked).consumers == shown


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"type_": "Failover"}, "gives everything to one consumer"),
        ({"type_": "Exclusive", "consumers": []}, "gives everything to one consumer"),
        ({"consumers": [], "connected": 0}, "no consumer is connected"),
        ({"rate_acked": None}, "has not reported the rates"),
        ({"rate_in": None}, "has not reported the rates"),
        ({"consumers": [Row(), Row(connected_ms=NOW_MS - 19_000)]}, "less than 20 s ago"),
        ({"rate_acked": 0.0}, "hardly anything is acked"),
        ({"consumers": [IDLE, IDLE], "rate_acked": 0.0}, "hardly anything is acked"),
        ({"consumers": [Row(), STARVED]}, "asks for messages but got none"),
        ({"consumers": [Row(), STARVED], "type_": "Key_Shared"}, "asks for messages but got none"),
    ],
)
def test_without_a_pace_there_is_no_estimate(changes: dict[str, Any], says: str) -> None:
    result = found(**changes)
    assert isinstance(result, Said)
    assert result.startswith("No estimate")
    assert says in result


@given(
    backlog=st.integers(1, 10**12),
    rate_in=st.floats(0, 10**6),
    each=st.floats(0.05, 10**5),
    working=st.integers(1, 500),
)
def test_more_consumers_are_never_slower(backlog: int, rate_in: float, each: float, working: int) -> None:
    rates = {"rate_in": rate_in, "rate_acked": each * working * 1.001}
    result = estimate(backlog_messages=backlog, connected=working, consumers=[Row()], **rates)
    times = [each.drain_s for each in result.choices]
    drains = [time for time in times if time is not None]
    assert times[: len(times) - len(drains)] == [None] * (len(times) - len(drains))
    assert drains == sorted(drains, reverse=True)
    for choice in result.choices:
        assert (choice.consumers >= result.needed) is (choice.drain_s is not None)
