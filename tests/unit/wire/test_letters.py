"""Names and properties of dead and retry letters, and when a count makes one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.errors import InvalidTopicName
from vela.wire.letters import (
    DeadLetterPolicy,
    DeadLetterRule,
    dead_letter_properties,
    dead_letter_topic,
    java_text,
    legacy_dead_letter_name,
    legacy_retry_name,
    retry_properties,
    retry_topic,
    times_reconsumed,
)
from vela.wire.message_id import MessageId
from vela.wire.redelivery_backoff import RedeliveryBackoff

TOPIC = "persistent://t/n/a"


def test_the_topics_of_letters_are_named_after_topic_and_subscription() -> None:
    assert dead_letter_topic(TOPIC, "s") == "persistent://t/n/a-s-DLQ"
    assert retry_topic(TOPIC, "s") == "persistent://t/n/a-s-RETRY"
    assert (legacy_dead_letter_name("s"), legacy_retry_name("s")) == ("s-DLQ", "s-RETRY")


@pytest.mark.parametrize(("name_of", "suffix"), [(dead_letter_topic, "-DLQ"), (retry_topic, "-RETRY")])
def test_a_default_name_that_is_too_long_is_refused(name_of: Callable[[str, str], str], suffix: str) -> None:
    longest = "s" * (1024 - len(f"{TOPIC}-{suffix}"))
    assert name_of(TOPIC, longest) == f"{TOPIC}-{longest}{suffix}"
    with pytest.raises(
        InvalidTopicName, match=r"would have a name of 1025 bytes; .* in the consumer's options"
    ):
        name_of(TOPIC, f"{longest}s")


def test_ids_are_printed_as_java_prints_them() -> None:
    assert java_text(MessageId(3, 4)) == "3:4:-1"
    assert java_text(MessageId(3, 4, 1)) == "3:4:1"
    assert java_text(MessageId(3, 4, -1, 2, 5)) == "3:4:-1:2"
    assert MessageId.parse(java_text(MessageId(3, 4))) == MessageId(3, 4)


@pytest.mark.parametrize(
    ("rule", "bypassed", "ended"),
    [
        (DeadLetterRule.JAVA, [False, False, False, True, True], [False, False, True, True, True]),
        (DeadLetterRule.GO, [False, False, True, True, True], [False] * 5),
    ],
)
def test_the_redelivery_count_decides_when_a_message_is_a_dead_letter(
    rule: DeadLetterRule, bypassed: list[bool], ended: list[bool]
) -> None:
    policy = DeadLetterPolicy(max_redeliver_count=2, rule=rule)
    assert [policy.bypasses(count) for count in range(5)] == bypassed
    assert [policy.ends(count) for count in range(5)] == ended


def test_a_copy_names_its_origin_and_keeps_that_of_the_first_copy() -> None:
    first = dead_letter_properties({"a": "b"}, topic=TOPIC, message_id=MessageId(1, 2), subscription="s")
    assert first == {
        "a": "b",
        "REAL_TOPIC": TOPIC,
        "ORIGIN_MESSAGE_ID": "1:2:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "1:2:-1",
        "REAL_SUBSCRIPTION": "s",
    }
    again = dead_letter_properties(
        first, topic="persistent://t/n/b", message_id=MessageId(9, 9), subscription="x"
    )
    assert again == first | {"REAL_SUBSCRIPTION": "x"}


def test_a_retry_letter_counts_and_takes_custom_properties() -> None:
    once = retry_properties(
        {"a": "b", "keep": "me"},
        topic=TOPIC,
        message_id=MessageId(1, 2),
        subscription="s",
        delay_ms=5000,
        custom={"a": "c", "REAL_TOPIC": "mine", "DELAY_TIME": "no", "RECONSUMETIMES": "7"},
    )
    assert (once["a"], once["keep"], once["REAL_TOPIC"]) == ("c", "me", "mine")
    assert (once["RECONSUMETIMES"], once["DELAY_TIME"]) == ("1", "5000")
    twice = retry_properties(once, topic=TOPIC, message_id=MessageId(3, 4), subscription="s", delay_ms=-1)
    assert (twice["RECONSUMETIMES"], twice["DELAY_TIME"]) == ("2", "0")
    assert twice["ORIGIN_MESSAGE_ID"] == "1:2:-1"


@pytest.mark.parametrize(
    ("text", "times"), [("3", 3), ("", 0), ("-1", 0), ("many", 0), ("\u0663", 0), ("9" * 50, 0)]
)
def test_an_invalid_count_is_ignored(text: str, times: int) -> None:
    assert times_reconsumed({"RECONSUMETIMES": text}) == times


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.floats(1, 1000), st.integers(-5, 10_000))
def test_a_backoff_grows_to_its_limit(min_ms: int, more_ms: int, multiplier: float, count: int) -> None:
    backoff = RedeliveryBackoff(min_ms=min_ms, max_ms=min_ms + more_ms, multiplier=multiplier)
    assert min_ms <= backoff.delay_ms(count) <= backoff.delay_ms(count + 1) <= min_ms + more_ms
    assert backoff.delay_ms(0) == min_ms


def test_a_backoff_with_a_small_multiplier_reaches_its_limit() -> None:
    backoff = RedeliveryBackoff(min_ms=100, max_ms=600_000, multiplier=1.1)
    assert [backoff.delay_ms(count) for count in (1, 91, 92)] == [110, 584_432, 600_000]


@pytest.mark.parametrize(("least", "most", "factor"), [(0, 5, 2), (5, 4, 2), (1, 5, 0.5), (1, 5, 1001)])
def test_a_backoff_that_cannot_work_is_refused(least: int, most: int, factor: float) -> None:
    with pytest.raises(ValueError, match="back-off"):
        RedeliveryBackoff(min_ms=least, max_ms=most, multiplier=factor)
