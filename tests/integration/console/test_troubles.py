"""What every page says without scripts when something behind it is wrong."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils.timezone import now

from broker.models import BrokerProcess, Heartbeat
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop

ORDERS = "/t/persistent/public/default/orders"
BILLING = f"{ORDERS}/s/billing"
PAGES = ["/topics", ORDERS, BILLING, "/acts", f"{BILLING}/act/reset"]


def body_class(client: Client, address: str) -> str:
    found = re.search(r'<body class="([^"]*)"', client.get(address).content.decode())
    assert found
    return found[1]


def silence_broker() -> None:
    BrokerProcess.objects.update(seen_at=now() - timedelta(seconds=6))


@pytest.mark.parametrize("address", PAGES)
def test_pages_say_that_the_broker_is_silent_and_states_are_unknown(
    address: str, operator: Client, shop: Shop
) -> None:
    assert body_class(operator, address) == ""
    assert "silent" not in text_of(operator.get(address))
    silence_broker()
    assert body_class(operator, address) == "unsure"
    words = text_of(operator.get(address))
    assert re.search(
        r"The broker is silent since \d\d:\d\d:\d\d \( \d+ s ago \) on shop-1, pid 77\. States are unknown",
        words,
    )


def test_old_numbers_say_how_old_they_are(operator: Client, shop: Shop) -> None:
    silence_broker()
    assert "Grey numbers are from 6 s ago" in text_of(operator.get(BILLING))


def test_findings_from_old_numbers_are_marked_as_old(operator: Client, shop: Shop) -> None:
    silence_broker()
    html = operator.get(f"{BILLING}?part=why").content.decode()
    assert html.count('class="finding"') == 1  # the finding that no broker runs
    assert 'class="finding reported"' in html


def test_pages_say_at_once_that_the_broker_was_stopped(looker: Client, shop: Shop) -> None:
    BrokerProcess.objects.update(seen_at=now(), stopped_at=now())
    assert "The broker was stopped at" in text_of(looker.get("/topics"))
    body = looker.get("/api/v1/stats").json()
    assert (body["broker"]["is_running"], body["troubles"]) == (False, ["broker-stopped"])


def test_a_silent_beat_leaves_states_as_they_are(looker: Client, shop: Shop) -> None:
    Heartbeat.objects.filter(name="beat").update(at=now() - timedelta(seconds=9))
    assert "Celery beat is silent since" in text_of(looker.get("/topics"))
    assert body_class(looker, "/topics") == ""
    assert looker.get("/api/v1/stats").json()["troubles"] == ["beat"]


def test_pages_api_and_scripts_say_the_same(looker: Client, anonymous: Client, shop: Shop) -> None:
    assert looker.get("/troubles").json() == {"html": "", "effects": [], "since_ms": None}
    silence_broker()
    found = looker.get("/troubles").json()
    assert "The broker is silent" in found["html"]
    assert found["effects"] == ["unsure"]
    assert looker.get("/api/v1/stats").json()["troubles"] == ["broker-silent"]
    assert anonymous.get("/troubles").status_code == 302


def test_a_badge_of_a_judged_state_has_the_class_that_hides_its_word_without_a_broker(
    operator: Client, shop: Shop
) -> None:
    html = operator.get(BILLING).content.decode()
    assert re.search(r'<span class="badge \w+ judged">', html)


@pytest.mark.parametrize(
    ("address", "status"), [("/nowhere", 404), (f"{ORDERS}-not", 404), ("/topics?q=%00", 400)]
)
def test_error_pages_keep_the_menu(
    address: str, status: int, looker: Client, anonymous: Client, shop: Shop
) -> None:
    answer = looker.get(address)
    assert answer.status_code == status
    assert 'aria-label="Pages"' in answer.content.decode()
    assert "vera" in text_of(answer)
    assert 'aria-label="Pages"' not in anonymous.get(address).content.decode()


def test_a_refused_viewer_keeps_the_menu(looker: Client, shop: Shop) -> None:
    answer = looker.get(f"{BILLING}/act/reset")
    assert answer.status_code == 403
    assert 'aria-label="Pages"' in answer.content.decode()


@pytest.mark.parametrize(
    ("error", "status", "words", "has_menu"),
    [
        (RuntimeError("no"), 500, "Something went wrong", True),
        (OperationalError("no"), 503, "The database does not answer", False),
    ],
)
def test_a_page_that_fails_says_why(
    error: Exception,
    status: int,
    words: str,
    has_menu: bool,
    looker: Client,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    looker.raise_request_exception = False
    monkeypatch.setattr("console.views.topics.read_topics", fail)
    answer = looker.get("/topics")
    assert answer.status_code == status
    assert words in text_of(answer)
    assert ('aria-label="Pages"' in answer.content.decode()) == has_menu


def test_an_unknown_address_of_the_api_is_a_document(looker: Client, anonymous: Client, db: None) -> None:
    answer = looker.get("/api/v1/nope")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert anonymous.get("/api/v1/nope").status_code == 401
    assert looker.get("/api/nope")["Content-Type"] == "application/problem+json"
