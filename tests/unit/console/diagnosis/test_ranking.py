"""The leading finding is the cause, and its effects follow."""

from __future__ import annotations

from typing import Any

import pytest

from console.diagnosis.diagnose import CAUSES, NOTICES, RULES, STANDINGS, diagnose
from console.diagnosis.snapshot import DeadLetters, Delayed, Pause
from tests.unit.console.diagnosis.snapshots import (
    HEALTHY,
    a_consumer,
    a_departure,
    a_first,
    a_key_block,
    ago_ms,
    changed,
    silent,
)

NOTHING_MOVES: dict[str, Any] = {
    "subscription__message_rate_acked": 0.0,
    "topic__message_rate_in": 0.0,
    "topic__last_append_ms": ago_ms(90),
}
NOBODY = {
    "subscription__consumers": 0,
    "consumers": (),
    "cursor__in_flight_entries": 0,
    "cursor__first": None,
}
PAUSED = {"subscription__pause": Pause(who="ada", at_ms=ago_ms(60), reason="")}
POISON = {"cursor__first": a_first(redelivery_count=9)}
IDLE: dict[str, Any] = {"unacked_messages": 0, "oldest_delivered_ms": 0, "oldest_position": ""}


def ids(**changes: Any) -> list[str]:
    return [finding.rule for finding in diagnose(changed(**changes))]


@pytest.mark.parametrize(
    ("leads", "changes"),
    [
        ("no_broker", {**NOTHING_MOVES, **PAUSED, **NOBODY, "processes__broker_seen_ms": ago_ms(60)}),
        ("paused", {**NOTHING_MOVES, **PAUSED, **NOBODY}),
        ("paused", {**NOTHING_MOVES, **PAUSED, "consumers": (silent(),)}),
        ("no_consumer", {**NOTHING_MOVES, **NOBODY}),
        (
            "incompatible_client",
            {**NOTHING_MOVES, **NOBODY, "subscription__departure": a_departure(cause="incompatible")},
        ),
        ("consumer_limit", {**NOTHING_MOVES, "consumers": (silent(permits=0, is_blocked=True),)}),
        (
            "silent_active",
            {
                **NOTHING_MOVES,
                "subscription__type": "Failover",
                "subscription__active_consumer": 1,
                "consumers": (silent(1, permits=0), silent(2, permits=0, **IDLE)),
            },
        ),
        ("no_permits", {**NOTHING_MOVES, "consumers": (silent(permits=0),), **POISON}),
        (
            "blocked_key",
            {
                **NOTHING_MOVES,
                "subscription__type": "Key_Shared",
                "subscription__key_block": a_key_block(),
                "cursor__unread_entries": 0,
                "cursor__first": a_first(delivered_ms=ago_ms(60)),
                "consumers": (silent(1), silent(2, **IDLE)),
            },
        ),
        (
            "hoarder",
            {
                **NOTHING_MOVES,
                "cursor__unread_entries": 0,
                "cursor__first": a_first(delivered_ms=ago_ms(60)),
                "consumers": (silent(1, unacked_messages=110), silent(2, **IDLE)),
            },
        ),
        ("poison", {**NOTHING_MOVES, **POISON}),
        (
            "stalled",
            {**NOTHING_MOVES, "consumers": (silent(**IDLE),), "cursor__first": a_first(consumer_key=0)},
        ),
        ("nothing_acked", {**NOTHING_MOVES, "consumers": (silent(),), "cursor__unread_entries": 0}),
        (
            "nothing_acked",  # an Exclusive consumer that keeps receiving
            {
                **NOTHING_MOVES,
                "subscription__type": "Exclusive",
                "subscription__state": "stuck",
                "consumers": (a_consumer(last_ack_ms=0),),
            },
        ),
        (
            "unexplained",
            {
                **NOTHING_MOVES,
                "subscription__in_flight_messages": 0,
                "consumers": (silent(**IDLE),),
                "cursor__unread_entries": 0,
            },
        ),
    ],
)
def test_the_cause_comes_first(leads: str, changes: dict[str, Any]) -> None:
    assert ids(**changes)[0] == leads


def test_a_message_without_an_ack_is_found_behind_the_hole_that_it_makes() -> None:
    old = a_first(appended_ms=ago_ms(90), delivered_ms=ago_ms(90))
    hole = {"cursor__first_hole_entries": 1, "cursor__acked_behind_entries": 500, "cursor__first": old}
    assert ids(**hole, consumers=(silent(),)) == ["ack_hole", "kept_unacked"]
    assert ids(**hole) == ["ack_hole"]  # the consumer that holds this message acks others


@pytest.mark.parametrize(
    ("rate_in", "leads"), [(20.0, "draining"), (60.0, "too_slow")], ids=["fast enough", "too slow"]
)
def test_a_message_far_back_in_a_long_queue_is_not_kept(rate_in: float, leads: str) -> None:
    found = ids(
        topic__message_rate_in=rate_in,
        subscription__backlog_messages=2000,
        cursor__first=a_first(delivered_ms=ago_ms(40)),
        consumers=(a_consumer(unacked_messages=1000, oldest_delivered_ms=ago_ms(40)),),
    )
    assert found == [leads]


def test_delayed_messages_alone_are_not_a_fault() -> None:
    delayed = Delayed(entries=110, next_due_ms=ago_ms(-60), is_whole=True)
    found = diagnose(
        changed(**NOTHING_MOVES, delayed=delayed, cursor__in_flight_entries=0, consumers=(silent(**IDLE),))
    )
    assert [(each.rule, each.severity) for each in found] == [("only_delayed", "fine")]
    assert ids(**NOTHING_MOVES, **NOBODY, delayed=delayed) == ["no_consumer"]


def test_a_notice_comes_after_the_findings_about_the_backlog() -> None:
    letters = DeadLetters(topic="d", messages=1, subscriptions=0, consumers=0, backlog_messages=0)
    assert ids(dead_letters=letters) == ["draining", "dead_letters"]
    assert ids(dead_letters=letters, **PAUSED) == ["paused", "dead_letters"]


def test_a_busy_consumer_without_permits_is_not_a_fault() -> None:
    """The consumer's queue is full because it works at its own pace."""
    assert ids(consumers=(a_consumer(permits=0, unacked_messages=1000),)) == ["draining"]


def test_consumers_with_minutes_between_acks_are_not_a_fault() -> None:
    """The broker has watched the backlog for longer than any window here, and judged that it drains."""
    slow = silent(permits=0, unacked_messages=1000)
    first = a_first(delivered_ms=ago_ms(90))
    assert ids(**NOTHING_MOVES, subscription__state="keeping up", consumers=(slow,), cursor__first=first) == [
        "draining"
    ]
    assert ids(**NOTHING_MOVES, subscription__state="stuck", consumers=(slow,))[0] == "no_permits"


@pytest.mark.parametrize(
    ("state", "leads"),
    [
        ("keeping up", "draining"),
        ("draining", "draining"),
        ("watching", "too_slow"),
        ("falling behind", "too_slow"),
    ],
)
def test_the_state_decides_whether_consumers_are_too_slow(state: str, leads: str) -> None:
    found = ids(topic__message_rate_in=60.0, subscription__backlog_messages=900, subscription__state=state)
    assert found == [leads]


@pytest.mark.parametrize("rate_acked", [40.0, 0.0])
def test_a_few_fast_seconds_do_not_overrule_the_broker(rate_acked: float) -> None:
    """The broker has watched the backlog grow for longer than the rates look back."""
    changes: dict[str, Any] = {
        "subscription__state": "falling behind",
        "subscription__message_rate_acked": rate_acked,
    }
    assert ids(**changes) == ["too_slow"]
    full = silent(1, permits=0, unacked_messages=1000)
    assert ids(**changes, consumers=(full,), cursor__first=a_first(delivered_ms=ago_ms(90))) == ["too_slow"]
    standby = silent(2, permits=0, **IDLE)
    assert ids(
        **changes, consumers=(full, standby), subscription__type="Failover", subscription__active_consumer=1
    ) == ["too_slow"]


def test_every_snapshot_has_a_leading_finding() -> None:
    assert ids() == ["draining"]
    assert ids(subscription__backlog_messages=0) == ["caught_up"]
    assert ids(subscription__consumers=None, consumers=(), subscription__message_rate_acked=None) == [
        "unreported"
    ]


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) == len(CAUSES) + len(NOTICES) + len(STANDINGS)
    assert all(rule.find.__module__.endswith(f".{rule.id}") for rule in RULES)
    assert HEALTHY.ready_entries == 100
