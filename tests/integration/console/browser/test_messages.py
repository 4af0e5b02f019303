"""Finding and reading messages in a real Chromium: j and k, the detail beside the list, long names."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from playwright.sync_api import Page, Route

from broker.models import Cursor, Subscription
from tests.integration.console.messages import write_log
from tests.integration.console.shop import Shop
from vela.wire.entry import encode_single

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = "/t/persistent/public/default/orders"


def test_the_message_of_the_focused_row_is_shown_beside_the_list(page: Page, shop: Shop) -> None:
    page.goto(f"{ORDERS}/messages?start=oldest&sub=billing")
    assert not page.is_visible("#detail")
    page.keyboard.press("j")
    page.wait_for_selector(f"#detail:has-text('{shop.sealed.pk}:0')")
    assert "customer-0" in page.inner_text("#detail")
    page.keyboard.press("j")
    page.wait_for_selector("#detail:has-text('customer-1')")
    page.keyboard.press("k")
    page.wait_for_selector("#detail:has-text('customer-0')")
    page.keyboard.press("Escape")
    assert not page.is_visible("#detail")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/m/{shop.sealed.pk}:1")
    assert "customer-1" in page.inner_text("#part-message")
    page.click("text=hex")
    page.wait_for_url("**?body=hex")
    assert page.inner_text("pre.hex").startswith("00000000  7b 22")
    page.click("text=Reset to here")
    page.wait_for_url("**/act/reset?*")
    assert page.is_checked("#to-id")
    assert page.input_value("[name=id]") == f"{shop.sealed.pk}:1"


def test_a_message_that_is_sent_to_the_login_page_of_a_project_loads_the_page_again(
    page: Page, shop: Shop
) -> None:
    address = f"{ORDERS}/messages?start=oldest&sub=billing"
    page.goto(address)
    page.route("**?part=message", lambda route: route.fulfill(status=302, headers={"Location": "/help"}))
    with page.expect_navigation():
        page.keyboard.press("j")
    assert page.url.endswith(address)


@pytest.mark.parametrize("back", ["k", "Escape"])
def test_a_message_that_comes_late_is_not_shown_beside_another_row(back: str, page: Page, shop: Shop) -> None:
    page.goto(f"{ORDERS}/messages?start=oldest&sub=billing")
    page.keyboard.press("j")
    page.wait_for_selector("#detail:has-text('customer-0')")
    held: list[Route] = []
    page.route("**/m/*:1?part=message", lambda route: held.append(route))
    with page.expect_request("**/m/*:1?part=message"):
        page.keyboard.press("j")
    page.keyboard.press(back)
    for route in held:
        route.fulfill(body="customer-1")
    page.evaluate("fetch('/healthz')")  # when this returns, the page has had the message for a while
    assert "customer-1" not in page.inner_text("#detail")
    assert page.is_visible("#detail") is (back == "k")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_long_names_overflow_no_box(
    width: int, theme: Literal["light", "dark"], page: Page, shop: Shop
) -> None:
    long = "n" * 300
    entry = encode_single(
        producer_name=long,
        sequence_id=1,
        publish_time_ms=1,
        payload=json.dumps({long: [long, {"deep": long}]}).encode(),
        key=long,
        properties={long: long, "short": "x"},
    )
    log = write_log(f"persistent://public/default/{long}", [entry, b"\x0e\x01garbage"])
    subscription = Subscription.objects.create(topic=log.topic, name=long, type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=log.ledgers[0].pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    topic = f"/t/persistent/public/default/{long}"
    for address in (f"{topic}/messages", f"{topic}/m/{log.spot(0)}", f"{topic}/m/{log.spot(1)}"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
