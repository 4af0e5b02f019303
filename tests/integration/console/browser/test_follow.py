"""Following a topic in a real Chromium: new rows appear without a reload, until the user pauses or stops."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from playwright.sync_api import Page, Route

from tests.integration.console.messages import append
from tests.integration.console.shop import Shop
from vela.wire.entry import encode_single

pytestmark = pytest.mark.django_db(transaction=True)

FOLLOW = "/t/persistent/public/default/orders/messages/follow"
ROWS = "#part-tail tbody tr"
FEW = 21  # one more than the page shows at first
LOOK = "htmx.trigger(document.getElementById('part-tail'), 'refresh')"
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def publish(shop: Shop, number: int) -> None:
    """Store a message, and notify as the topic's owner does."""
    data = encode_single(
        producer_name="p", sequence_id=number, publish_time_ms=1, payload=b"new", key=f"k{number}"
    )
    append(shop.open, [data])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('vela_page', %s)", [json.dumps([f"topic:{shop.topic.pk}"])])


def has_row(page: Page, shop: Shop, entry: int) -> None:
    page.wait_for_selector(f"{ROWS}:first-child :text-is('{shop.open.pk}:{entry}')")


def keep_few_rows(route: Route) -> None:
    """Give the page a smaller limit of rows."""
    if route.request.resource_type != "document":
        route.continue_()
        return
    answer = route.fetch()
    route.fulfill(
        response=answer, body=answer.text().replace('data-most-rows="200"', f'data-most-rows="{FEW}"')
    )


def test_messages_come_by_themselves_until_following_stops(page: Page, shop: Shop) -> None:
    page.clock.install()
    page.route("**/messages/follow?*", keep_few_rows)
    page.goto(FOLLOW.removesuffix("/follow"))
    page.focus("button:text('Follow')")
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages/follow?*")
    page.wait_for_selector(".pulse.on")
    before = page.locator(ROWS).count()
    page.keyboard.press("j")
    first = page.inner_text(":focus")
    publish(shop, 1)
    has_row(page, shop, 6)
    assert (page.locator(ROWS).count(), page.inner_text(":focus")) == (before + 1, first)
    assert page.inner_text("[data-words]") == "1 message has arrived."
    page.clock.fast_forward(10_000)
    assert page.inner_text("[role=status] [data-said]") == "1 message has arrived."

    looks: list[str] = []
    page.on("request", lambda request: looks.append(request.url) if "part=tail" in request.url else None)
    page.focus("[data-tail-pause]")
    page.keyboard.press("Enter")
    page.wait_for_selector(":text('Resume shows what has arrived meanwhile')")
    publish(shop, 2)
    page.evaluate(LOOK)
    assert (looks, page.locator(ROWS).count()) == ([], before + 1)
    page.keyboard.press("Enter")
    has_row(page, shop, 7)
    assert page.inner_text("[data-words]") == "2 messages have arrived."
    assert not page.is_visible(":text('Resume shows')")
    assert page.locator(ROWS).count() == before + 1 == FEW

    page.evaluate(HIDE, True)
    page.evaluate(HIDE, False)
    assert page.is_visible(":text('Stopped, because this tab was hidden')")
    page.click("button:text('Resume')")
    page.wait_for_selector("button:text('Pause')")
    page.clock.fast_forward(600_000)
    assert page.is_visible(":text('Stopped after 10')")
