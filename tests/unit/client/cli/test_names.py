"""Names on the command line, and in addresses as the console reads them."""

from __future__ import annotations

import string
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.addresses import NameConverter, TopicConverter
from vela.cli.text.names import full_name, is_namespace, short_name, subscription_path, topic_path

WORDS = st.text(string.ascii_letters + string.digits + "-=:._~%+ é", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("shop/eu/orders", "persistent://shop/eu/orders"),
        ("persistent://shop/eu/orders", "persistent://shop/eu/orders"),
        ("non-persistent://shop/eu/orders", "non-persistent://shop/eu/orders"),
    ],
)
def test_short_topic_names_are_completed_to_full_ones(text: str, full: str) -> None:
    assert full_name(text) == full
    assert full_name(short_name(full)) == full


@pytest.mark.parametrize("text", ["", "a/b", "a/b/c/d", "http://a/b/c", "/a/b", "persistent://a/b", "a//b"])
def test_an_error_about_a_topic_name_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"write t, tenant/namespace/"):
        full_name(text)


def test_a_namespace_is_distinguished_from_a_topic() -> None:
    assert [is_namespace(each) for each in ("a/b", "a", "a/b/c", "persistent://a/b/c")] == [
        True,
        False,
        False,
        False,
    ]


@given(
    tenant=WORDS,
    namespace=WORDS,
    local=WORDS,
    subscription=st.text(min_size=1).filter(lambda text: "\0" not in text),
)
def test_addresses_are_spelled_as_the_console_reads_them(
    tenant: str, namespace: str, local: str, subscription: str
) -> None:
    topic = f"persistent://{tenant}/{namespace}/{local}"
    path = topic_path(topic)
    assert unquote(path) == f"topics/{TopicConverter().to_url(topic)}"
    assert TopicConverter().to_python(unquote(path).removeprefix("topics/")) == topic
    try:
        subscription.encode()
    except UnicodeEncodeError:
        return
    last = subscription_path(topic, subscription).rpartition("/")[2]
    assert NameConverter().to_python(unquote(last)) == subscription
