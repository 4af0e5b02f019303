"""Service URLs, names of topics, pauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela import errors
from vela.core.backoff import Backoff
from vela.core.service_url import parse_broker_url, parse_service_url
from vela.core.topic_name import full_name, namespace_of, partition_index, partition_name


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("pulsar://localhost", ["pulsar://localhost:6650"]),
        ("pulsar://a:1,b,[::1]:3", ["pulsar://a:1", "pulsar://b:6650", "pulsar://[::1]:3"]),
        ("pulsar+ssl://h", ["pulsar+ssl://h:6651"]),
        ("ws://h:8080", ["ws://h:8080/ws/binary"]),
        ("ws://h:8080/", ["ws://h:8080/ws/binary"]),
        ("wss://h/vela", ["wss://h:443/vela/ws/binary"]),
        ("ws://h/ws/binary", ["ws://h:80/ws/binary"]),
        (" WS://a,b:2/x ", ["ws://a:80/x/ws/binary", "ws://b:2/x/ws/binary"]),
    ],
)
def test_a_service_url_is_read_as_its_addresses(text: str, urls: list[str]) -> None:
    assert [address.url for address in parse_service_url(text).addresses] == urls


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:6650",
        "http://h:8080",
        "pulsar://",
        "pulsar://a,,b",
        "pulsar://a:b",
        "pulsar://a:99999",
        "pulsar://a:0",
        "pulsar://a/path",
        "pulsar://user@a",
        "ws://a?b=c",
        "pulsar://[::1",
        "pulsar://a..b",
        "pulsar://.",
        f"pulsar://{'a' * 64}",
        "pulsar://a b",
        "pulsar://a\0b",
        "pulsar://a#b",
        "ws://a/b#c",
        "ws://a/b?c=d",
    ],
)
def test_errors_about_service_urls_show_a_correct_one(text: str) -> None:
    with pytest.raises(errors.InvalidUrl, match="write pulsar://host"):
        parse_service_url(text)


def test_use_tls_encrypts_where_the_scheme_does_not() -> None:
    assert [each.tls for each in parse_service_url("pulsar://a,b", use_tls=True).addresses] == [True, True]


def test_a_broker_has_one_address() -> None:
    assert str(parse_broker_url("pulsar://a:1")) == "a:1"
    with pytest.raises(errors.InvalidUrl):
        parse_broker_url("pulsar://a:1,b:2")


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("t", "persistent://public/default/t"),
        ("a/b/t", "persistent://a/b/t"),
        ("non-persistent://a/b/t", "non-persistent://a/b/t"),
    ],
)
def test_short_names_are_completed(topic: str, name: str) -> None:
    assert full_name(topic) == name
    assert full_name(name) == name


@pytest.mark.parametrize(
    "topic",
    [
        "",
        " ",
        "a/b",
        "a/b/",
        "/b/t",
        "http://a/b/t",
        "persistent://a/b/t/u",
        "persistent://t",
        "persistent://a/b",
    ],
)
def test_an_invalid_topic_name_is_refused(topic: str) -> None:
    with pytest.raises(errors.InvalidTopicName, match="write t, tenant"):
        full_name(topic)


@pytest.mark.parametrize("topic", ["../../t", "a/./t", "a b/c/t", "a/é/t", "persistent://a/b+/t", "a\n/b/t"])
def test_tenants_and_namespaces_have_pulsars_letters_and_are_not_dots_only(topic: str) -> None:
    with pytest.raises(errors.InvalidTopicName, match="but not only dots"):
        full_name(topic)
    assert full_name("a-=:._1/..b/...") == "persistent://a-=:._1/..b/..."


@pytest.mark.parametrize("topic", [".", "..", "a/b/..", "persistent://a/b/.-partition-0"])
def test_a_topic_is_not_named_like_a_folder_in_an_address(topic: str) -> None:
    with pytest.raises(errors.InvalidTopicName, match=r"must not be \. or \.\."):
        full_name(topic)


def test_the_name_of_a_partition_has_its_number() -> None:
    assert partition_name("persistent://a/b/t", 12) == "persistent://a/b/t-partition-12"
    assert partition_index("persistent://a/b/t-partition-12") == 12
    assert [partition_index(name) for name in ("t", "t-partition-", "t-partition-01", "t-partition-1x")] == [
        -1
    ] * 4
    assert namespace_of("non-persistent://a/b/c") == "a/b"


@pytest.mark.row("S0.3")
@given(
    st.floats(1, 1e4), st.floats(1, 1e6), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=40)
)
def test_pauses_double_to_the_limit_and_are_shortened_a_little(
    initial_ms: float, max_ms: float, chances: list[float]
) -> None:
    backoff = Backoff(initial_ms=initial_ms, max_ms=max_ms)
    for attempt, chance in enumerate(chances):
        whole = min(initial_ms * 2**attempt, max_ms)
        assert 0.8 * whole * (1 - 1e-9) <= backoff.next_ms(chance) <= whole * (1 + 1e-9)
    backoff.reset()
    assert backoff.next_ms(0) == min(initial_ms, max_ms)
