"""Policies: what a document may hold, and how documents are merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.policies import (
    FIELDS,
    BacklogQuotaPolicy,
    Policies,
    PolicyField,
    PolicyInvalid,
    PolicyLevel,
    PolicyValue,
    checked,
    in_words,
    kept,
    merged,
    valid_part,
)

LEVELS = st.sampled_from(list(PolicyLevel))


def good_values(field: PolicyField) -> st.SearchStrategy[PolicyValue]:
    """Return a strategy for every value that a field takes."""
    if field.kind is bool:
        return st.booleans()
    if issubclass(field.kind, StrEnum):
        return st.sampled_from([str(each) for each in field.kind])
    return st.integers(field.least, field.most)


def bad_values(field: PolicyField) -> st.SearchStrategy[object]:
    """Return a strategy for wrong values: another type, an unknown name, a number out of range."""
    wrong: list[st.SearchStrategy[object]] = [
        st.none(),
        st.lists(st.integers(), max_size=2),
        st.floats(),
        st.dictionaries(st.text(), st.integers(), max_size=1),
    ]
    if field.kind is bool:
        wrong += [st.integers(), st.text()]
    elif issubclass(field.kind, StrEnum):
        names = [str(each) for each in field.kind]
        unknown = st.text().filter(lambda text: text not in names)
        wrong += [st.integers(), st.booleans(), unknown]
    else:
        wrong += [
            st.text(),
            st.booleans(),
            st.integers(max_value=field.least - 1),
            st.integers(min_value=field.most + 1),
        ]
    return st.one_of(wrong)


def documents(level: PolicyLevel) -> st.SearchStrategy[dict[str, PolicyValue]]:
    """Return a strategy for valid documents."""
    return st.fixed_dictionaries(
        {}, optional={each.name: good_values(each) for each in FIELDS.values() if level in each.levels}
    )


@given(st.data(), LEVELS)
def test_a_valid_document_is_stored_as_it_is(data: st.DataObject, level: PolicyLevel) -> None:
    document = data.draw(documents(level))
    assert checked(document, level) == document
    assert valid_part(document, level) == (document, [])


@given(st.data(), LEVELS)
def test_a_wrong_value_is_refused_by_name_and_the_rest_stays_readable(
    data: st.DataObject, level: PolicyLevel
) -> None:
    document: Mapping[str, object] = data.draw(documents(level))
    field = data.draw(st.sampled_from([each for each in FIELDS.values() if level in each.levels]))
    document = {**document, field.name: data.draw(bad_values(field))}
    with pytest.raises(PolicyInvalid, match=field.name) as error:
        checked(document, level)
    assert field.takes in str(error.value)
    usable, complaints = valid_part(document, level)
    assert usable == {name: value for name, value in document.items() if name != field.name}
    assert complaints == [str(error.value)]


@given(st.text().filter(lambda name: name not in FIELDS), LEVELS)
def test_an_unknown_name_is_refused(name: str, level: PolicyLevel) -> None:
    with pytest.raises(PolicyInvalid, match="there is no policy"):
        checked({name: 1}, level)


def test_a_policy_of_namespaces_is_refused_on_a_topic() -> None:
    assert checked({"auto_create_topics": False}, PolicyLevel.NAMESPACE) == {"auto_create_topics": False}
    with pytest.raises(PolicyInvalid, match="auto_create_topics is set on a namespace, not on a topic"):
        checked({"auto_create_topics": False}, PolicyLevel.TOPIC)


@given(documents(PolicyLevel.NAMESPACE), documents(PolicyLevel.TOPIC))
def test_a_topic_overrides_its_namespace_and_a_namespace_the_defaults(
    namespace: dict[str, PolicyValue], topic: dict[str, PolicyValue]
) -> None:
    base = Policies()
    assert asdict(merged(base, namespace, topic)) == {**asdict(base), **namespace, **topic}
    assert merged(base, namespace, topic) == merged(merged(base, namespace), topic)
    assert merged(base) == base
    assert merged(base, topic, topic) == merged(base, topic)


@given(st.data())
def test_a_value_written_as_text_is_read_as_that_value(data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(list(FIELDS.values())))
    value = data.draw(good_values(field))
    assert field.parse(str(value)) == value


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("retention_ms", "a day", "7d, or a whole number of milliseconds from -1"),
        ("retention_ms", "-2", "a whole number of milliseconds from -1"),
        ("message_ttl_ms", "1.5", "milliseconds from 0 to 9007199254740991; 0 means never"),
        ("message_ttl_ms", "10GB", "a length of time"),
        ("inactive_topic_ms", "infinite", "a length of time"),
        ("retention_bytes", "1h", "a size such as 512MiB or 10GB, or a whole number of bytes from -1"),
        ("retention_bytes", "9000000TB", "a size such as"),
        ("max_producers", "1h", "a whole number from 0"),
        ("auto_create_partitions", "10001", "a whole number from 0 to 10000"),
        ("deduplication", "1", "true or false"),
        ("backlog_quota_policy", "drop", "producer_request_hold, producer_exception"),
        ("schema_compatibility", "full", "FULL"),
    ],
)
def test_text_that_is_not_a_value_is_refused(name: str, text: str, takes: str) -> None:
    with pytest.raises(PolicyInvalid, match=f"{name} is .*{takes}"):
        FIELDS[name].parse(text)


def test_the_name_of_a_choice_becomes_its_enum_member() -> None:
    policies = merged(Policies(), {"backlog_quota_policy": "producer_exception"})
    assert policies.backlog_quota_policy is BacklogQuotaPolicy.PRODUCER_EXCEPTION


@given(st.data())
def test_a_value_in_words_can_be_read_back(data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(list(FIELDS.values())))
    value = data.draw(good_values(field))
    assert field.parse(field.words(value)) == value


@pytest.mark.parametrize(
    ("name", "text", "value", "words"),
    [
        ("retention_ms", "7d", 604_800_000, "7 days"),
        ("retention_ms", "Infinite", -1, "infinite"),
        ("retention_bytes", "10GB", 10**10, "10 GB"),
        ("message_ttl_ms", "never", 0, "never"),
        ("message_ttl_ms", "infinite", 0, "never"),
        ("backlog_quota_bytes", "infinite", -1, "no limit"),
        ("max_unacked_per_consumer", "infinite", 0, "no limit"),
        ("inactive_topic_ms", "90s", 90_000, "1 minute 30 seconds"),
        ("max_unacked_per_consumer", "-1", -1, "the broker's setting"),
        ("max_consumers", "12", 12, "12"),
        ("ledger_max_entries", "50\u202f000", 50_000, "50000"),
        ("protected", "TRUE", True, "true"),
    ],
)
def test_values_are_written_and_read_with_units(name: str, text: str, value: PolicyValue, words: str) -> None:
    assert (FIELDS[name].parse(text), FIELDS[name].words(value)) == (value, words)


@pytest.mark.parametrize(
    ("time_ms", "size_bytes", "words"),
    [
        (604_800_000, 20 * 10**9, "kept 7 days or 20 GB, whichever is less"),
        (604_800_000, -1, "kept 7 days"),
        (-1, 20 * 10**9, "kept up to 20 GB"),
        (-1, -1, "kept for ever"),
        (0, -1, "not kept"),
        (-1, 0, "not kept"),
    ],
)
def test_retention_is_said_in_words(time_ms: int, size_bytes: int, words: str) -> None:
    assert kept(Policies(retention_ms=time_ms, retention_bytes=size_bytes)) == words


def test_policies_are_said_in_sentences() -> None:
    assert in_words(Policies(retention_ms=-1, retention_bytes=-1)) == (
        "messages that every subscription has acked are kept for ever",
        "messages that are not acked never expire",
        "a backlog may grow without limit",
    )
    limited = Policies(
        message_ttl_ms=3_600_000,
        backlog_quota_bytes=10**9,
        backlog_quota_ms=60_000,
        backlog_quota_policy=BacklogQuotaPolicy.CONSUMER_BACKLOG_EVICTION,
        protected=True,
    )
    assert in_words(limited)[1:] == (
        "messages that are not acked within 1 hour expire and are not delivered",
        "if a backlog is larger than 1 GB or older than 1 minute, the slowest subscription loses its oldest messages",
        "every act on this namespace and its topics needs a reason",
    )
