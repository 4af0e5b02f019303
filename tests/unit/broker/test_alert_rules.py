"""When an alert fires and clears, by a clock that the test moves."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from broker.acts.alerts import condition, masked_url, rule_columns, value_words
from broker.core.alerts import (
    SUBJECTS_MOST,
    Alert,
    Match,
    Subject,
    may_notify,
    next_alert,
    next_alerts,
    retry_after_s,
)

BILLING = Subject(1, 2)
START_MS = 1_000_000_000
FOR_MS = 60_000


def over(now_ms: int, value: int = 50, since_ms: int | None = None) -> Match:
    return Match(subject=BILLING, value=value, since_ms=now_ms if since_ms is None else since_ms)


def firing() -> Alert:
    return Alert(subject=BILLING, value=50, over_since_ms=START_MS - FOR_MS, fired_ms=START_MS)


def test_an_alert_fires_after_its_time_over_the_limit() -> None:
    alert: Alert | None = None
    fired_at = []
    for now_ms in range(START_MS, START_MS + 80_000, 10_000):
        alert = next_alert(alert, over(now_ms), for_ms=FOR_MS, now_ms=now_ms)
        assert alert is not None
        fired_at.append(alert.fired_ms)
    assert fired_at == [None] * 6 + [START_MS + 60_000] * 2


def test_without_a_time_an_alert_fires_at_once() -> None:
    alert = next_alert(None, over(START_MS), for_ms=0, now_ms=START_MS)
    assert alert is not None
    assert alert.fired_ms == START_MS


def test_a_state_that_has_lasted_fires_at_once() -> None:
    alert = next_alert(None, over(START_MS, since_ms=START_MS - FOR_MS), for_ms=FOR_MS, now_ms=START_MS)
    assert alert is not None
    assert (alert.fired_ms, alert.over_since_ms) == (START_MS, START_MS - FOR_MS)


def test_a_value_that_falls_below_the_limit_before_the_alert_fires_is_forgotten() -> None:
    waiting = next_alert(None, over(START_MS), for_ms=FOR_MS, now_ms=START_MS)
    assert next_alert(waiting, None, for_ms=FOR_MS, now_ms=START_MS + 10_000) is None


def test_an_alert_clears_after_the_same_time_below_the_limit() -> None:
    alert: Alert | None = firing()
    cleared = []
    for now_ms in range(START_MS + 10_000, START_MS + 90_000, 10_000):
        alert = next_alert(alert, None, for_ms=FOR_MS, now_ms=now_ms)
        assert alert is not None
        cleared.append(alert.cleared_ms)
        if alert.cleared_ms:
            break
    assert cleared == [None] * 6 + [START_MS + 70_000]


def test_a_firing_alert_that_comes_back_starts_to_clear_again() -> None:
    below = next_alert(firing(), None, for_ms=FOR_MS, now_ms=START_MS)
    again = next_alert(below, over(START_MS + 50_000, 70), for_ms=FOR_MS, now_ms=START_MS + 50_000)
    assert again == replace(firing(), value=70)
    below = next_alert(again, None, for_ms=FOR_MS, now_ms=START_MS + 61_000)
    assert below is not None
    assert (below.below_since_ms, below.cleared_ms) == (START_MS + 61_000, None)


@pytest.mark.parametrize("is_firing", [False, True])
def test_time_in_which_nobody_looked_does_not_count(is_firing: bool) -> None:
    now_ms = START_MS + 3_600_000
    if is_firing:
        below = replace(firing(), below_since_ms=START_MS)
        after = next_alert(below, None, for_ms=FOR_MS, now_ms=now_ms, was_away=True)
        assert after is not None
        assert (after.below_since_ms, after.cleared_ms) == (now_ms, None)
    else:
        waiting = Alert(subject=BILLING, value=1, over_since_ms=START_MS)
        after = next_alert(waiting, over(now_ms), for_ms=FOR_MS, now_ms=now_ms, was_away=True)
        assert after is not None
        assert (after.over_since_ms, after.fired_ms) == (now_ms, None)


def test_a_round_starts_keeps_and_ends_alerts() -> None:
    other, third = Subject(1, 3), Subject(1, 4)
    stored = [replace(firing(), id=7), Alert(subject=other, value=1, over_since_ms=START_MS, id=8)]
    matches = {third: Match(subject=third, value=9, since_ms=START_MS)}
    changes = next_alerts(stored, matches, for_ms=FOR_MS, now_ms=START_MS + 10_000, last_round_ms=START_MS)
    assert [(before and before.id, after and after.subject) for before, after in changes] == [
        (7, BILLING),
        (8, None),
        (None, third),
    ]


def test_nothing_clears_while_a_rule_matches_more_than_it_watches() -> None:
    matches = {
        Subject(1, number): Match(subject=Subject(1, number), value=9, since_ms=START_MS)
        for number in range(100, 100 + SUBJECTS_MOST)
    }
    changes = next_alerts([firing()], matches, for_ms=0, now_ms=START_MS, last_round_ms=START_MS)
    assert BILLING not in {after.subject for _, after in changes if after}


def test_a_rule_sends_at_most_four_notifications_a_minute_and_none_while_silenced() -> None:
    sent: list[int] = []
    for now_ms in range(START_MS, START_MS + 60_000, 1000):
        if may_notify(now_ms=now_ms, silent_until_ms=None, notified_ms=sent[-1] if sent else None):
            sent.append(now_ms)
    assert len(sent) == 4
    assert not may_notify(now_ms=START_MS, silent_until_ms=START_MS + 1, notified_ms=None)
    assert may_notify(now_ms=START_MS + 1, silent_until_ms=START_MS + 1, notified_ms=None)


def test_pauses_between_attempts_double_up_to_an_hour() -> None:
    assert [retry_after_s(number) for number in (1, 2, 3, 20)] == [15, 30, 60, 3600]


@pytest.mark.parametrize(
    ("pattern", "name", "is_covered"),
    [
        (("*", "*"), "persistent://shop/eu/orders", True),
        (("shop/*", "*"), "persistent://shop/eu/orders", True),
        (("shop/*", "*"), "persistent://shopping/eu/orders", False),
        (("shop/eu", "*"), "persistent://shop/us/orders", False),
        (("shop/eu", "ord*"), "persistent://shop/eu/orders", True),
        (("shop/eu", "ord"), "persistent://shop/eu/orders", False),
        (("shop/eu", "orders"), "persistent://shop/eu/orders-partition-3", True),
        (("shop/eu", "o.ders"), "persistent://shop/eu/orders", False),
        (("shop/eu", "(or|x"), "persistent://shop/eu/(or|x", True),
    ],
)
def test_patterns_decide_which_names_a_rule_covers(
    pattern: tuple[str, str], name: str, is_covered: bool
) -> None:
    columns = rule_columns(
        rule_id=1,
        measure="backlog",
        threshold=1,
        within_ms=None,
        namespaces=pattern[0],
        topics=pattern[1],
        subscriptions="*",
    )
    assert bool(re.search(str(columns["topics"]), name)) is is_covered


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (("backlog", 10_000, None, 300_000), "backlog above 10,000 messages for 5 minutes"),
        (("age", 5_400_000, None, 0), "oldest unacked message older than 1 hour 30 minutes"),
        (("stuck", None, None, 60_000), "stuck for 1 minute"),
        (("dead_letters", 1, 600_000, 0), "dead letters: more than 1 message within 10 minutes"),
        (("stored", 10_000_000_000, None, 0), "stored: more than 10 GB"),
        (("broker", None, None, 30_000), "the broker is silent for 30 seconds"),
    ],
)
def test_a_condition_is_said_in_words(rule: tuple[str, int | None, int | None, int], words: str) -> None:
    assert condition(*rule) == words


def test_a_value_is_said_in_words_with_its_unit() -> None:
    assert value_words("age", 61_234) == "1 minute 1 second"
    assert value_words("backlog", 1234) == "1,234 messages"


def test_a_webhook_is_shown_without_its_secret() -> None:
    assert (
        masked_url("https://ann:pw@hooks.example.org:8443/T0/secret?key=x")
        == "https://hooks.example.org:8443/…"
    )
    assert masked_url("") == ""
