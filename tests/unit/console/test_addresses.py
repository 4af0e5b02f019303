"""Addresses of pages: any name can be written into one and is read back."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from django.urls import Resolver404, resolve
from hypothesis import given, settings
from hypothesis import strategies as st

from console.addresses import act_form_url, short_name, subscription_url, topic_url

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)


@settings(deadline=None)  # the first call imports every view
@given(tenant=names, namespace=names, local=names, subscription=names)
def test_any_name_is_read_back_from_its_address(
    tenant: str, namespace: str, local: str, subscription: str
) -> None:
    # Tenants and namespaces have no slash; what follows the third slash is the local name.
    topic = f"persistent://{tenant.replace('/', '-')}/{namespace.replace('/', '-')}/{local}"
    # A server hands Django the decoded path.
    found = resolve(unquote(urlsplit(subscription_url(topic, subscription)).path))
    assert (found.kwargs["topic"], found.kwargs["name"]) == (topic, subscription)


@pytest.mark.parametrize("name", [".", "..", "..."])
def test_a_name_of_dots_makes_no_segment_that_a_browser_would_resolve(name: str) -> None:
    url = subscription_url(f"persistent://public/default/{name}", name)
    assert not {".", ".."} & set(url.split("/"))


def test_usual_names_are_readable() -> None:
    topic = "persistent://public/default/orders"
    assert topic_url(topic) == "/t/persistent/public/default/orders"
    assert (
        act_form_url(topic, "billing", "rewind") == "/t/persistent/public/default/orders/s/billing/act/rewind"
    )
    assert topic_url("non-persistent://a/b/c") == "/t/non-persistent/a/b/c"


def test_short_name_keeps_slashes_of_the_local_part() -> None:
    assert short_name("persistent://public/default/a/b") == "a/b"
    assert short_name("persistent://public/default/orders-partition-3") == "orders-partition-3"


@pytest.mark.parametrize(
    "path",
    [
        "/t/persistent/public/default/a\0b",
        "/t/persistent/public/default/a~00b",
        "/t/persistent/public/default/a/s/x\0",
    ],
)
def test_an_impossible_name_is_not_found(path: str) -> None:
    with pytest.raises(Resolver404):
        resolve(path)
