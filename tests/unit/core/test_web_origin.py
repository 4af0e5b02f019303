"""Origins and hosts: the parts that are compared, and the texts that are neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.web_origin import Origin, parse_host, parse_origin


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://localhost", Origin("http", "localhost", 80)),
        ("HTTPS://Shop.Example.org", Origin("https", "shop.example.org", 443)),
        ("https://shop.example.org.", Origin("https", "shop.example.org", 443)),
        ("http://[::1]:8080", Origin("http", "[::1]", 8080)),
        ("chrome-extension://abcdef", Origin("chrome-extension", "abcdef", 0)),
        ("pulsar+ssl://host:6651", Origin("pulsar+ssl", "host", 6651)),
    ],
)
def test_an_origin_is_scheme_host_and_port(text: str, origin: Origin) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "localhost",
        "://localhost",
        "http://",
        "http://a/",
        "http://a@b",
        "http://a:b",
        "http://a b",
        "http://a:1:2",
        "http://[::1",
        "http://::1",
        "http://a?b",
        "http://a\n",
        "http://.",
        "http://a:123456",
    ],
)
def test_anything_else_is_not_an_origin(text: str) -> None:
    assert parse_origin(text) is None


@given(st.text())
def test_any_text_is_a_host_or_none(text: str) -> None:
    found = parse_host(text)
    if found is not None:
        assert text.lower().startswith(found[0])
