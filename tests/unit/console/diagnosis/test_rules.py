"""Each rule fires on a recorded snapshot, and does not fire on the nearest miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from console.diagnosis.diagnose import RULES
from console.diagnosis.findings import Finding, Severity, Unit
from console.diagnosis.rules.messages import dead_letters
from console.diagnosis.snapshot import (
    DeadLetters,
    Delayed,
    DispatchRate,
    OldestSegment,
    Pause,
    SlowestCursor,
)
from console.words.said import Said
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

BY_ID = {rule.id: rule for rule in RULES}
Changes = Mapping[str, Any]

NOTHING_ACKED: Changes = {"subscription__message_rate_acked": 0.0, "subscription__message_rate_out": 0.0}
STOPPED: Changes = {**NOTHING_ACKED, "topic__last_append_ms": ago_ms(60), "topic__message_rate_in": 0.0}
IDLE = {"unacked_messages": 0, "oldest_delivered_ms": 0, "oldest_position": ""}
FULL = silent(permits=0, unacked_messages=1000)
LETTERS = DeadLetters(
    topic="persistent://public/default/orders-billing-DLQ",
    messages=7,
    subscriptions=0,
    consumers=0,
    backlog_messages=0,
)
HOLE: Changes = {
    "cursor__first_hole_entries": 1,
    "cursor__acked_behind_entries": 500,
    "cursor__first": a_first(appended_ms=ago_ms(90), delivered_ms=ago_ms(90)),
}
KEPT: Changes = {
    "cursor__first": a_first(delivered_ms=ago_ms(21)),
    "consumers": (a_consumer(last_ack_ms=ago_ms(21)),),
}
DELAYED: Changes = {
    "delayed": Delayed(entries=110, next_due_ms=ago_ms(-60), is_whole=True),
    "cursor__in_flight_entries": 0,
}
MANY_DELAYED: Changes = {
    "delayed": Delayed(entries=10_000, next_due_ms=ago_ms(-60), is_whole=False),
    "subscription__state": "idle",
    "cursor__unacked_entries": None,
    "cursor__in_flight_entries": 0,
}

# Rule, what makes it fire, and one more change that stops it.
CASES: list[tuple[str, Changes, Changes]] = [
    ("no_broker", {"processes__broker_seen_ms": ago_ms(6)}, {"processes__broker_seen_ms": ago_ms(4)}),
    ("no_broker", {"processes__broker_seen_ms": 0}, {"processes__broker_seen_ms": ago_ms(0)}),
    (
        "database_blocked",
        {"database__waiting_statements": 2, "database__longest_wait_s": 6.0, "database__blocking_pid": 9},
        {"database__longest_wait_s": 4.0},
    ),
    (
        "database_blocked",
        {"database__waiting_statements": 1, "database__longest_wait_s": 6.0},
        {"database": None},
    ),
    (
        "paused",
        {"subscription__pause": Pause(who="ada", at_ms=ago_ms(60), reason="deploy")},
        {"subscription__pause": None},
    ),
    (
        "incompatible_client",
        {"subscription__consumers": 0, "subscription__departure": a_departure(cause="incompatible")},
        {"subscription__departure": a_departure(cause="broker")},
    ),
    (
        "incompatible_client",
        {"subscription__departure": a_departure(cause="incompatible", at_ms=ago_ms(30))},
        {"subscription__departure": a_departure(cause="incompatible", at_ms=ago_ms(61))},
    ),
    ("no_consumer", {"subscription__consumers": 0, "consumers": ()}, {"subscription__consumers": 1}),
    ("no_consumer", {"subscription__consumers": 0, "consumers": ()}, {"subscription__backlog_messages": 0}),
    ("no_consumer", {"subscription__consumers": 0, "consumers": ()}, {"subscription__consumers": None}),
    ("log_gap", {"subscription__gap": "entry 7:12 is missing"}, {"subscription__gap": ""}),
    (
        "unreadable_log",
        {"subscription__read_fault": "cannot read s3://history/7/12-a.parquet: no answer"},
        {"subscription__read_fault": ""},
    ),
    ("only_delayed", DELAYED, {"cursor__unacked_entries": 111}),
    ("only_delayed", DELAYED, {"cursor__in_flight_entries": 1}),
    ("only_delayed", DELAYED, {"subscription__type": "Exclusive"}),
    ("only_delayed", DELAYED, {"consumers": ()}),
    ("only_delayed", DELAYED, {"subscription__pause": Pause(who="ada", at_ms=ago_ms(60), reason="")}),
    ("only_delayed", MANY_DELAYED, {"subscription__state": "watching"}),
    ("only_delayed", MANY_DELAYED, {"subscription__replay_entries": 1}),
    ("only_delayed", MANY_DELAYED, {"cursor__in_flight_entries": 1}),
    ("only_delayed", MANY_DELAYED, {"subscription__backlog_messages": 0}),
    (
        "zero_queue_batch",
        {
            "cursor__first": a_first(messages=5),
            "consumers": (silent(permits=-4, unacked_messages=5),),
        },
        {"consumers": (silent(permits=0, unacked_messages=5),)},
    ),
    (
        "zero_queue_batch",
        {
            "cursor__first": a_first(messages=5),
            "consumers": (silent(permits=-4, unacked_messages=5),),
        },
        {"consumers": (silent(permits=-4, unacked_messages=5, last_ack_ms=ago_ms(2)),)},
    ),
    (
        "consumer_limit",
        {"consumers": (a_consumer(is_blocked=True, unacked_messages=50_000),)},
        {"consumers": (a_consumer(unacked_messages=49_999),)},
    ),
    ("subscription_limit", {"subscription__is_blocked": True}, {"subscription__is_blocked": None}),
    (
        "silent_active",
        {"subscription__active_consumer": 1, "consumers": (silent(1), a_consumer(2, **IDLE))},
        {"consumers": (a_consumer(1), a_consumer(2, **IDLE))},
    ),
    (
        "silent_active",
        {"subscription__active_consumer": 1, "consumers": (silent(1), a_consumer(2, **IDLE))},
        {"consumers": (silent(1, **IDLE), a_consumer(2, **IDLE))},
    ),
    (
        "blocked_key",
        {"subscription__key_block": a_key_block(), "consumers": (silent(1), a_consumer(2))},
        {"consumers": (silent(1), a_consumer(2, permits=0))},
    ),
    (
        "blocked_key",
        {"subscription__key_block": a_key_block(), "consumers": (silent(1), a_consumer(2))},
        {"consumers": (silent(1, last_ack_ms=ago_ms(4)), a_consumer(2))},
    ),
    (
        "not_reading",
        {"consumers": (silent(is_writable=False),)},
        {"consumers": (silent(is_writable=False, last_delivery_ms=ago_ms(4)),)},
    ),
    ("no_permits", {"consumers": (FULL, silent(2, permits=-3))}, {"consumers": (FULL, silent(2, permits=1))}),
    ("no_permits", {"consumers": (FULL,)}, {"consumers": (silent(permits=0, last_ack_ms=ago_ms(9)),)}),
    ("no_permits", {"consumers": (FULL,)}, {"consumers": (silent(permits=0, is_blocked=True),)}),
    (
        "hoarder",
        {"cursor__unread_entries": 0, "consumers": (silent(1, unacked_messages=110), silent(2, **IDLE))},
        {"cursor__unread_entries": 5},
    ),
    (
        "hoarder",
        {"cursor__unread_entries": 0, "consumers": (silent(1, unacked_messages=110), silent(2, **IDLE))},
        {"cursor__unread_entries": None},
    ),
    (
        "hoarder",
        {"cursor__unread_entries": 0, "consumers": (silent(1, unacked_messages=110), silent(2, **IDLE))},
        {"consumers": (silent(1, unacked_messages=70), silent(2, unacked_messages=40))},
    ),
    (
        "hoarder",
        {"cursor__unread_entries": 0, "consumers": (silent(1, unacked_messages=110), silent(2, **IDLE))},
        {"consumers": (silent(1, unacked_messages=110), silent(2, **{**IDLE, "connected_ms": ago_ms(4)}))},
    ),
    (
        "hoarder",  # the other consumer has a few messages and room for more; or its queue is full
        {
            "cursor__unread_entries": 0,
            "consumers": (silent(1, unacked_messages=110), silent(2, unacked_messages=5)),
        },
        {"consumers": (silent(1, unacked_messages=110), silent(2, unacked_messages=1, permits=0))},
    ),
    (
        "poison",
        {"cursor__first": a_first(redelivery_count=3)},
        {"cursor__first": a_first(redelivery_count=2)},
    ),
    (
        "dispatch_rate",
        {
            "subscription__is_rate_limited": True,
            "limits__dispatch_rates": (
                DispatchRate(policy="dispatch_rate_messages", per_second=5, set_on="topic"),
            ),
        },
        {"cursor__unread_entries": 0},
    ),
    ("ack_hole", HOLE, {"cursor__acked_behind_entries": 9}),
    ("ack_hole", HOLE, {"cursor__first_hole_entries": 100}),
    ("ack_hole", HOLE, {"cursor__first": a_first(appended_ms=ago_ms(90), delivered_ms=ago_ms(10))}),
    ("kept_unacked", KEPT, {"cursor__first": a_first(delivered_ms=ago_ms(19))}),
    ("kept_unacked", KEPT, {"cursor__first": a_first(delivered_ms=ago_ms(21), broker_keeps_time=True)}),
    ("kept_unacked", KEPT, {"consumers": (a_consumer(last_ack_ms=ago_ms(19)),)}),
    ("stalled", {**STOPPED, "consumers": (silent(),)}, {"cursor__unread_entries": 0}),
    ("stalled", {**STOPPED, "consumers": (silent(),)}, {"consumers": (silent(permits=0),)}),
    ("stalled", {**STOPPED, "consumers": (silent(),)}, {"consumers": (silent(last_flow_ms=ago_ms(9)),)}),
    ("stalled", {**STOPPED, "consumers": (silent(),)}, {"subscription__replay_entries": None}),
    *(
        ("stalled", {**STOPPED, "consumers": (silent(),)}, other)
        for other in (
            {"subscription__pause": Pause(who="ada", at_ms=ago_ms(60), reason="")},
            {"subscription__gap": "entry 7:12 is missing"},
            {"subscription__is_blocked": True},
            {"subscription__is_rate_limited": True},
            {"subscription__key_block": a_key_block()},
            {"database__waiting_statements": 1},
            {"processes__broker_seen_ms": ago_ms(6)},
        )
    ),
    (
        "too_slow",
        {"topic__message_rate_in": 60.0, "subscription__backlog_messages": 900},
        {"topic__message_rate_in": 30.0},
    ),
    (
        "too_slow",
        {"topic__message_rate_in": 60.0, "subscription__backlog_messages": 900},
        {"subscription__backlog_messages": 200},
    ),
    (
        "too_slow",  # a consumer's first seconds say nothing about its rate
        {"topic__message_rate_in": 60.0, "subscription__backlog_messages": 900},
        {"consumers": (a_consumer(connected_ms=ago_ms(6)),)},
    ),
    (
        "too_slow",
        {"topic__message_rate_in": 60.0, "subscription__backlog_messages": 900},
        {"subscription__state_since_ms": ago_ms(6)},
    ),
    ("backlog_quota", {"limits__quota_bytes": 10_999}, {"limits__quota_bytes": 11_000}),
    (
        "backlog_quota",
        {"limits__quota_bytes": 12_000, "slowest": SlowestCursor(name="other", backlog_bytes=13_000)},
        {"slowest": SlowestCursor(name="other", backlog_bytes=12_000)},
    ),
    ("backlog_quota", {"limits__quota_ms": 1000}, {"limits__quota_ms": 3000}),
    ("dead_letters", {"dead_letters": LETTERS}, {"dead_letters": None}),
    (
        "dead_letters",
        {
            "dead_letters": DeadLetters(
                topic="d", messages=7, subscriptions=1, consumers=0, backlog_messages=7
            )
        },
        {
            "dead_letters": DeadLetters(
                topic="d", messages=7, subscriptions=1, consumers=1, backlog_messages=7
            )
        },
    ),
    (
        "oldest_segment",
        {"oldest_segment": OldestSegment(id=3, closed_ms=ago_ms(3601), ledgers=2)},
        {"oldest_segment": OldestSegment(id=3, closed_ms=0, ledgers=2)},
    ),
    ("disk_full", {"disk__free_bytes": 4_900_000_000}, {"disk__free_bytes": 5_000_000_000}),
    ("disk_full", {"disk__free_bytes": 1_000_000_000, "disk__total_bytes": 9_000_000_000}, {"disk": None}),
    (
        "long_transaction",
        {"database__longest_transaction_s": 31.0},
        {"database__longest_transaction_s": 29.0},
    ),
    ("timers_silent", {"processes__beat_seen_ms": ago_ms(16)}, {"processes__beat_seen_ms": ago_ms(14)}),
    (
        "timers_silent",
        {"processes__beat_seen_ms": ago_ms(101), "processes__tick_ms": 20_000},
        {"processes__beat_seen_ms": ago_ms(99)},
    ),
    ("timers_silent", {"processes__worker_seen_ms": 0}, {"processes__worker_seen_ms": ago_ms(1)}),
    ("caught_up", {"subscription__backlog_messages": 0}, {"subscription__backlog_messages": 1}),
    ("unreported", {"subscription__consumers": None}, {"subscription__consumers": 0}),
    ("draining", {}, NOTHING_ACKED),
    ("draining", {}, {"subscription__state": "falling behind"}),
    ("just_delivered", NOTHING_ACKED, {"consumers": (silent(),)}),
    ("just_delivered", NOTHING_ACKED, {"subscription__state": "stuck"}),
    ("nothing_acked", NOTHING_ACKED, {"subscription__message_rate_acked": 0.1}),
    ("nothing_acked", NOTHING_ACKED, {"subscription__in_flight_messages": 0}),
    ("nothing_acked", NOTHING_ACKED, {"consumers": ()}),
]


@pytest.mark.parametrize(("rule", "fault", "miss"), CASES, ids=[case[0] for case in CASES])
def test_a_rule_fires_and_a_near_miss_does_not(rule: str, fault: Changes, miss: Changes) -> None:
    found = BY_ID[rule].find(changed(**fault))
    assert found is not None
    assert found.rule == rule
    assert found.sentence.endswith(".")
    assert BY_ID[rule].find(changed(**{**fault, **miss})) is None


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} | {"unexplained"} == set(BY_ID)


def found_by(rule: str, **changes: Any) -> Finding:
    found = BY_ID[rule].find(changed(**changes))
    assert found is not None
    return found


def evidence(found: Finding) -> dict[str, Any]:
    return {each.label: each.value for each in found.evidence}


@pytest.mark.parametrize(
    ("departure", "words"),
    [
        (None, "none has been connected since the subscription was created"),
        (a_departure(), "worker-1 was the last one: its client closed it"),
        (a_departure(cause="lost"), "worker-1 was the last one: its connection ended"),
        (
            a_departure(cause="broker", detail="an operator disconnected it"),
            "the broker closed it: an operator disconnected it",
        ),
    ],
)
def test_without_consumers_the_finding_says_who_left_and_why(departure: Any, words: str) -> None:
    found = found_by(
        "no_consumer", subscription__consumers=0, consumers=(), subscription__departure=departure
    )
    assert words in found.sentence


@pytest.mark.parametrize(
    ("state", "departure", "severity"),
    [
        ("keeping up", None, Severity.NOTICE),
        ("draining", a_departure(at_ms=ago_ms(61)), Severity.NOTICE),
        ("keeping up", a_departure(at_ms=ago_ms(30)), Severity.STOPPED),
        ("stuck", None, Severity.STOPPED),
    ],
)
def test_while_clients_may_pull_a_missing_consumer_is_only_a_notice(
    state: str, departure: Any, severity: Severity
) -> None:
    found = found_by(
        "no_consumer",
        subscription__consumers=0,
        consumers=(),
        subscription__state=state,
        subscription__departure=departure,
    )
    assert (found.severity, "If no client pulls" in found.sentence) == (severity, severity is Severity.NOTICE)


@pytest.mark.parametrize(
    ("consumers", "severity", "words"),
    [
        ((a_consumer(connected_ms=ago_ms(0.3)),), Severity.FINE, "A consumer has just connected"),
        ((), Severity.STOPPED, "A consumer that has just connected appears within seconds"),
    ],
)
def test_before_the_first_report_the_finding_does_not_say_that_no_consumer_ever_connected(
    consumers: Any, severity: Severity, words: str
) -> None:
    found = found_by("unreported", subscription__consumers=None, consumers=consumers)
    assert found.severity is severity
    assert words in found.sentence
    assert "No client has used" not in found.sentence


def test_a_poison_message_can_be_skipped_alone() -> None:
    found = found_by("poison", cursor__first=a_first(redelivery_count=12))
    assert ("skip_one", {"id": "7:11"}) in [(each.act, each.parameters) for each in found.cures]
    assert evidence(found)["redelivered"] == 12
    assert found.severity is Severity.SLOW
    assert (
        found_by("poison", cursor__first=a_first(redelivery_count=12), **NOTHING_ACKED).severity
        is Severity.STOPPED
    )


def test_a_cure_names_the_number_of_a_consumer_whose_name_others_have() -> None:
    greedy, idle = silent(1, unacked_messages=110), silent(2, **IDLE)
    for other, parameters in (
        (idle, {"consumer": greedy.name}),
        (replace(idle, name=greedy.name), {"consumer_key": greedy.key}),
    ):
        found = found_by("hoarder", cursor__unread_entries=0, consumers=(greedy, other))
        assert [each.parameters for each in found.cures if each.act] == [parameters]


def test_redelivering_a_hole_names_the_number_of_a_consumer_whose_name_others_have() -> None:
    for others, parameters in (
        ((), {"consumer": "worker-1"}),
        ((a_consumer(2, name="worker-1"),), {"consumer_key": 1}),
    ):
        found = found_by("ack_hole", **HOLE, consumers=(a_consumer(), *others))
        assert parameters in [each.parameters for each in found.cures if each.act == "redeliver"]


def test_a_hoarder_s_sentence_says_how_many_the_others_have() -> None:
    greedy, other = silent(1, unacked_messages=110), silent(2, unacked_messages=2)
    found = found_by("hoarder", cursor__unread_entries=0, consumers=(greedy, other))
    assert found.sentence == f"{greedy.name} has 110 messages in its queue, while {other.name} has 2."
    found = found_by("hoarder", cursor__unread_entries=0, consumers=(greedy, other, replace(other, key=3)))
    assert "while 2 other consumers have at most 2 each" in found.sentence


@pytest.mark.parametrize(
    ("type_", "permits", "room", "act"),
    [
        ("Shared", 0, 1000, "disconnect"),  # the other consumer has room for everything
        # The hoarder has no permits, so the other consumer gets the messages bit by bit.
        ("Shared", 0, 100, "redeliver"),
        ("Shared", 890, 100, "disconnect"),  # a redelivery would give the hoarder half of it again
        # A redelivery follows the keys, which still belong to the hoarder.
        ("Key_Shared", 0, 100, "disconnect"),
    ],
)
def test_the_first_cure_of_a_hoarder_makes_the_others_work(
    type_: str, permits: int, room: int, act: str
) -> None:
    found = found_by(
        "hoarder",
        subscription__type=type_,
        cursor__unread_entries=0,
        consumers=(silent(1, unacked_messages=1000, permits=permits), silent(2, **IDLE, permits=room)),
    )
    assert found.cures[0].act == act


def test_the_finding_says_how_many_consumers_are_missing_once_their_pace_is_known() -> None:
    behind: Changes = {"subscription__state": "falling behind", "topic__message_rate_in": 130.0}
    text = "Add at least 3 consumers as"
    # One consumer acks 40 a second, and 90 a second are not acked.
    assert text in found_by("too_slow", **behind).cures[0].text
    no_number = "Make each consumer faster, or add consumers."
    for unknown in (
        {"subscription__state": "watching", "subscription__backlog_messages": 9000},
        {"topic__message_rate_in": 4000.0},  # nobody would add 99 consumers
        {"consumers": (a_consumer(), a_consumer(2, connected_ms=ago_ms(6)))},
        NOTHING_ACKED,
    ):
        assert found_by("too_slow", **{**behind, **unknown}).cures[0].text == no_number
    found = found_by("too_slow", **behind)
    assert evidence(found)["falling behind"] == HEALTHY.subscription.state_since_ms


def test_a_consumer_that_takes_nothing_does_not_count_as_a_slow_one() -> None:
    behind: Changes = {"subscription__state": "falling behind", "topic__message_rate_in": 130.0}
    found = found_by("too_slow", **behind, consumers=(a_consumer(), silent(2, permits=0)))
    assert "Find out what worker-2 waits for" in found.cures[0].text
    assert "Add at least 3 consumers as" in found.cures[1].text
    assert evidence(found)["consumers that take no messages"] == 1
    found = found_by(
        "too_slow",
        topic__message_rate_in=130.0,
        subscription__backlog_messages=9000,
        subscription__type="Failover",
    )
    assert "Failover gives everything to one consumer" in found.cures[0].text


@pytest.mark.parametrize(
    ("type_", "says"),
    [("Key_Shared", "Spread the messages over more keys"), ("Shared", "Make each consumer faster")],
)
def test_more_consumers_are_no_cure_while_one_gets_no_messages(type_: str, says: str) -> None:
    found = found_by(
        "too_slow",
        subscription__state="falling behind",
        subscription__type=type_,
        consumers=(a_consumer(), silent(2, **IDLE)),
    )
    assert evidence(found)["acked by each consumer"] == HEALTHY.subscription.message_rate_acked
    assert evidence(found)["consumers that get no messages"] == 1
    assert [each.text.startswith(says) for each in found.cures] == [True]
    assert "more consumers would not help" in found.cures[0].text


def test_a_consumer_that_stands_by_does_not_halve_the_pace_of_the_active_one() -> None:
    found = found_by(
        "too_slow",
        subscription__state="falling behind",
        subscription__type="Failover",
        consumers=(a_consumer(), a_consumer(2, **IDLE)),
    )
    assert evidence(found)["acked by each consumer"] == HEALTHY.subscription.message_rate_acked


def test_a_limit_that_leaves_another_consumer_free_only_slows_the_subscription() -> None:
    blocked = a_consumer(is_blocked=True, unacked_messages=50_000)
    assert found_by("consumer_limit", consumers=(blocked,)).severity is Severity.STOPPED
    assert found_by("consumer_limit", consumers=(blocked, a_consumer(2))).severity is Severity.SLOW


def test_a_wait_in_the_database_that_lets_acks_through_only_slows_the_subscription() -> None:
    waiting: Changes = {"database__waiting_statements": 2, "database__longest_wait_s": 6.0}
    assert found_by("database_blocked", **waiting).severity is Severity.SLOW
    assert found_by("database_blocked", **waiting, **NOTHING_ACKED).severity is Severity.STOPPED


def test_a_key_that_does_not_drain_is_distinguished_from_one_with_a_full_owner() -> None:
    others = (silent(1), a_consumer(2))
    draining = found_by("blocked_key", subscription__key_block=a_key_block(), consumers=others)
    full = found_by("blocked_key", subscription__key_block=a_key_block(is_draining=False), consumers=others)
    assert "no longer owns the key" in draining.sentence
    assert "takes no more" in full.sentence


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("draining", "the backlog drains"),
        ("keeping up", "keep up with the producers"),
        ("watching", "too early to say"),
    ],
)
def test_the_state_says_whether_the_backlog_drains(state: str, words: str) -> None:
    found = found_by("draining", subscription__state=state, subscription__drain_s=None)
    assert words in found.sentence
    assert "time left" not in evidence(found)


def test_the_time_left_is_the_brokers_estimate() -> None:
    """The page shows the broker's estimate above the findings, and the two must agree."""
    found = found_by("draining", subscription__state="draining", subscription__drain_s=250)
    assert evidence(found)["time left"] == 250


def test_without_a_subscription_the_number_of_waiting_letters_is_not_shown() -> None:
    letters = DeadLetters(topic="d", messages=7, subscriptions=1, consumers=0, backlog_messages=5)
    for given, labels in (
        (LETTERS, ["dead-letter topic", "messages so far"]),
        (letters, ["dead-letter topic", "messages so far", "waiting in it"]),
    ):
        finding = dead_letters.RULE.find(changed(dead_letters=given))
        assert finding is not None
        assert [each.label for each in finding.evidence] == labels


def test_a_count_of_delayed_entries_that_was_cut_off_says_at_least() -> None:
    assert evidence(found_by("only_delayed", **MANY_DELAYED))["delayed"] == "at least 10\u202f000 entries"
    uncounted = {**MANY_DELAYED, "delayed": Delayed(entries=0, next_due_ms=0, is_whole=False)}
    assert evidence(found_by("only_delayed", **uncounted)) == {}
    assert changed(**{**MANY_DELAYED, "cursor__unacked_entries": 12_000}).ready_entries is None
    assert changed(**{**MANY_DELAYED, "cursor__unread_entries": 0}).ready_entries == 0


def test_the_quota_names_whose_backlog_it_is() -> None:
    other = SlowestCursor(name="audit", backlog_bytes=99_999)
    assert (
        "The backlog of audit"
        in found_by("backlog_quota", limits__quota_bytes=50_000, slowest=other).sentence
    )
    assert "This backlog" in found_by("backlog_quota", limits__quota_bytes=1).sentence
    late = found_by("backlog_quota", limits__quota_ms=1000, slowest=other)
    assert "This backlog" in late.sentence  # the oldest message is in this subscription's backlog
    assert [each.topic for each in late.cures] == ["", ""]


@pytest.mark.parametrize("fault", [case[1] for case in CASES])
def test_findings_can_be_written_in_words(fault: Changes) -> None:
    from console.diagnosis.words import severity_word, value_text

    for rule in RULES:
        found = rule.find(changed(**fault))
        if found is None:
            continue
        assert severity_word(found.severity)
        assert isinstance(found.sentence, Said)
        for each in found.evidence:
            assert isinstance(each.label, Said) or each.label.startswith("backlog_quota_")  # a policy's name
            assert value_text(each)
            assert each.unit is not Unit.TIME or isinstance(each.value, int)
        for cure in found.cures:
            assert isinstance(cure.text, Said)
            assert [bool(cure.act), bool(cure.block), bool(cure.topic)].count(True) <= 1


def test_a_healthy_subscription_has_no_cause() -> None:
    assert [rule.id for rule in RULES if rule.find(HEALTHY)] == ["draining", "just_delivered", "unexplained"]
