"""A read-only console refuses every request that would change something, and offers no form for one."""

from __future__ import annotations

import dataclasses

import pytest
from django.test import Client

from broker.conf import broker_settings
from console.access import rights
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop
from tests.integration.console.test_hostile_input import API, GOOD, ROUTES, filled

CHANGES_NOTHING_OF_VELA = {
    "/login",
    "/login/code",
    "/login/second-factor",
    "/logout",
    "/theme",
    "/language",
    "/healthz",
    "/readyz",
    f"{API}/openapi.json",
}


@pytest.fixture(autouse=True)
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(broker_settings(), console_read_only=True)
    monkeypatch.setattr(rights, "broker_settings", lambda: settings)


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in CHANGES_NOTHING_OF_VELA])
def test_every_request_that_would_change_something_is_refused(
    route: str, operator: Client, shop: Shop
) -> None:
    answer = operator.post(filled(route, GOOD), "{}", content_type="application/json")
    assert answer.status_code in (403, 404, 405)
    if answer.status_code == 403:
        assert "read-only" in answer.content.decode()


@pytest.mark.parametrize("address", ["/acts/1/apply", "/acts/1/refuse", "/acts/1/undo"])
def test_an_act_is_refused_before_it_is_looked_up(address: str, operator: Client, shop: Shop) -> None:
    assert operator.post(address).status_code == 403
    assert operator.post(f"{API}{address}", content_type="application/json").json()["code"] == "ReadOnly"


def test_pages_say_that_they_are_read_only_and_offer_no_act(operator: Client, shop: Shop) -> None:
    page = operator.get("/t/persistent/public/default/orders/s/billing")
    assert "Read-only." in text_of(page)
    assert "/act/" not in page.content.decode()
    assert "customer-5" in page.content.decode()  # readers still see what they may see
    form = operator.get("/t/persistent/public/default/orders/s/billing/act/clear")
    assert (form.status_code, "VELA_CONSOLE_READ_ONLY" in text_of(form)) == (403, True)
