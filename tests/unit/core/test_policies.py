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
    MOST,
    BacklogQuotaPolicy,
    Policies,
    PolicyField,
    PolicyInvalid,
    PolicyLevel,
    PolicyValue,
    checked,
    merged,
    valid_part,
)

LEVELS = st.sampled_from(list(PolicyLevel))


def good_values(field: PolicyField) -> st.SearchStrategy[PolicyValue]:
    """Every value a field takes."""
    if field.kind is bool:
        return st.booleans()
    if issubclass(field.kind, StrEnum):
        return st.sampled_from([str(each) for each in field.kind])
    return st.integers(field.least, MOST)


def bad_values(field: PolicyField) -> st.SearchStrategy[object]:
    """Values of the wrong kind, unknown names, numbers out of range."""
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
            st.integers(min_value=MOST + 1),
        ]
    return st.one_of(wrong)


def documents(level: PolicyLevel) -> st.SearchStrategy[dict[str, PolicyValue]]:
    """Whole documents that are right."""
    return st.fixed_dictionaries(
        {}, optional={each.name: good_values(each) for each in FIELDS.values() if level in each.levels}
    )


@given(st.data(), LEVELS)
def test_a_right_document_is_stored_as_it_is(data: st.DataObject, level: PolicyLevel) -> None:
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


def test_what_belongs_to_namespaces_is_refused_on_a_topic() -> None:
    assert checked({"auto_create_topics": False}, PolicyLevel.NAMESPACE) == {"auto_create_topics": False}
    with pytest.raises(PolicyInvalid, match="auto_create_topics is set on a namespace, not on a topic"):
        checked({"auto_create_topics": False}, PolicyLevel.TOPIC)


@given(documents(PolicyLevel.NAMESPACE), documents(PolicyLevel.TOPIC))
def test_the_topic_changes_its_namespace_and_that_the_defaults(
    namespace: dict[str, PolicyValue], topic: dict[str, PolicyValue]
) -> None:
    base = Policies()
    assert asdict(merged(base, namespace, topic)) == {**asdict(base), **namespace, **topic}
    assert merged(base, namespace, topic) == merged(merged(base, namespace), topic)
    assert merged(base) == base
    assert merged(base, topic, topic) == merged(base, topic)


@given(st.data())
def test_a_value_written_as_text_is_the_value(data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(list(FIELDS.values())))
    value = data.draw(good_values(field))
    assert field.parse(str(value)) == value


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("retention_ms", "1 day", "a whole number from -1"),
        ("retention_ms", "-2", "a whole number from -1"),
        ("message_ttl_ms", "1.5", "a whole number from 0"),
        ("deduplication", "1", "true or false"),
        ("backlog_quota_policy", "drop", "producer_request_hold, producer_exception"),
        ("schema_compatibility", "full", "FULL"),
    ],
)
def test_text_that_is_no_value_is_refused(name: str, text: str, takes: str) -> None:
    with pytest.raises(PolicyInvalid, match=f"{name} is .*{takes}"):
        FIELDS[name].parse(text)


def test_names_become_members() -> None:
    policies = merged(Policies(), {"backlog_quota_policy": "producer_exception"})
    assert policies.backlog_quota_policy is BacklogQuotaPolicy.PRODUCER_EXCEPTION
