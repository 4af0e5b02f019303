"""The pages in a real Chromium: no errors, quiet updates, keys. The other files here test pages without scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils.timezone import now
from playwright.sync_api import Browser, Page

from broker.models import Act, ConsumerSession, Cursor
from tests.integration.console.shop import Shop
from tests.integration.console.started_console import started_console, window
from tests.support.browser import chromium as chromium
from tests.support.plans import a_plan

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = "/t/persistent/public/default/orders"
BILLING = f"{ORDERS}/s/billing"
WORDS = "document.querySelector('#part-numbers .words')"


def tell(shop: Shop) -> None:
    """Notify, as the topic's owner does after a change."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('vela_page', %s)", [json.dumps([f"sub:{shop.billing.pk}"])])


def ack_one(shop: Shop) -> None:
    """Ack one message."""
    cursor = Cursor.objects.get(pk=shop.billing.pk)
    cursor.acked_messages += 1
    cursor.save()
    tell(shop)


def open_live(page: Page) -> None:
    """Open the subscription's page, and wait until its stream is open and has been read once."""
    with page.expect_response(lambda response: "part=next" in response.url):
        page.goto(BILLING)
    page.wait_for_selector(".pulse.on")


def test_a_change_repaints_its_block_and_a_quiet_one_stays(page: Page, shop: Shop) -> None:
    # A consumer that does nothing for some seconds gets a flag, which repaints its block.
    tomorrow_ms = shop.now_ms + 86_400_000
    ConsumerSession.objects.update(last_delivery_ms=tomorrow_ms, last_ack_ms=tomorrow_ms)
    open_live(page)
    page.evaluate("window.consumers = document.querySelector('#part-consumers section')")
    ack_one(shop)
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")
    assert page.evaluate("window.consumers.isConnected")


def test_a_repaint_keeps_a_selection(page: Page, shop: Shop) -> None:
    open_live(page)
    page.evaluate(f"getSelection().selectAllChildren({WORDS})")
    chosen = page.evaluate("getSelection().toString()")
    with page.expect_response(lambda response: "part=consumers" in response.url):
        ack_one(shop)
    assert page.evaluate("getSelection().toString()") == chosen
    assert f"{shop.backlog} left" in page.inner_text("#part-numbers")
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")


def test_a_paused_page_does_not_change_until_it_goes_on(page: Page, shop: Shop) -> None:
    open_live(page)
    page.keyboard.press("p")
    assert page.input_value("[data-refresh]") == "off"
    ack_one(shop)
    assert f"{shop.backlog} left" in page.inner_text("#part-numbers")
    page.keyboard.press("p")
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")


def test_changes_during_a_pause_are_shown_when_the_page_goes_on(page: Page, shop: Shop) -> None:
    open_live(page)
    page.keyboard.press("p")
    ack_one(shop)
    page.keyboard.press("p")
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")
    ack_one(shop)
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 2} left')")


def test_a_pause_in_one_tab_is_shown_in_the_other(page: Page, shop: Shop) -> None:
    """A pause holds in every tab, so a page that still said “live” would be wrong."""
    open_live(page)
    other = page.context.new_page()
    other.goto("/topics")
    other.keyboard.press("p")
    page.wait_for_function("() => document.querySelector('[data-refresh]').value === 'off'", timeout=5000)
    page.wait_for_selector(".pulse:not(.on)", state="attached")


def test_the_page_of_a_waiting_act_turns_into_its_answer(page: Page, shop: Shop) -> None:
    act = Act.objects.create(
        kind="reset",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=shop.topic.name,
        subscription_name="billing",
        parameters={"to": "earliest"},
        who="ada",
        origin="console 127.0.0.1",
        requested_at=now(),
        state="plan_requested",
    )
    page.goto(f"/acts/{act.pk}")
    assert "The broker has not answered yet" in page.inner_text(".note")
    page.wait_for_selector(".pulse.on")
    act.state, act.plan = "planned", a_plan()
    act.save()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('vela_act_done', %s)", [str(act.pk)])
    page.wait_for_selector("form.apply")


def test_a_page_whose_session_has_ended_leads_to_the_login(page: Page, shop: Shop) -> None:
    open_live(page)
    Session.objects.all().delete()
    tell(shop)
    page.wait_for_url(lambda url: "/login?next=" in url)


def test_a_page_that_is_sent_to_the_login_page_of_a_project_is_loaded_again(page: Page, shop: Shop) -> None:
    open_live(page)
    page.route("**/s/billing?part=*", lambda route: route.fulfill(status=302, headers={"Location": "/help"}))
    with page.expect_navigation(url=f"**{BILLING}"):
        tell(shop)


def test_a_page_says_that_its_subscription_was_deleted(page: Page, errors: list[str], shop: Shop) -> None:
    open_live(page)
    shop.billing.delete()
    tell(shop)
    page.wait_for_selector(":text('There is no subscription billing')")
    errors.clear()  # Chromium logs each answer of 404


def test_a_console_that_stops_ends_its_streams(chromium: Browser, shop: Shop) -> None:
    with started_console() as own, window(chromium, own.url) as page:
        open_live(page)
        own.process.terminate()
        own.process.wait(10)  # a stream never ends by itself
        page.wait_for_selector(".pulse.lost")


def test_a_subscription_is_rewound_by_keyboard_alone(page: Page, shop: Shop) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.evaluate("document.getElementById('keys').open")
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('keys').open")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/acts")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/orders")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/billing")
    page.focus("text=Rewind")
    page.keyboard.press("Enter")
    page.wait_for_url("**/act/rewind")
    page.focus("#messages")
    page.keyboard.type("2")
    # Enter asks for the messages that were typed, not for the first preset above them.
    page.keyboard.press("Enter")
    page.wait_for_url("**/acts/*")
    assert "Rewind by 2 messages" in page.inner_text("h1").replace("\u202f", " ")
    assert "The broker has not answered yet" in page.inner_text(".note")


def test_a_reset_that_was_refused_offers_its_new_plan(page: Page, errors: list[str], shop: Shop) -> None:
    subject: dict[str, Any] = {
        "kind": "reset",
        "topic": shop.topic,
        "subscription": shop.billing,
        "topic_name": shop.topic.name,
        "subscription_name": "billing",
        "parameters": {"to": "earliest"},
        "who": "ada",
        "origin": "console 127.0.0.1",
        "requested_at": now(),
    }
    new_plan = Act.objects.create(**subject, state="planned", plan=a_plan(replayed_messages=889))
    Act.objects.create(
        **subject,
        state="refused",
        plan=a_plan(),
        error="889 messages would be delivered again, the plan showed 4 and allowed for 60 more;"
        " look at the new preview",
        error_code="ActConflict",
        result={"new_plan": new_plan.pk},
    )
    page.goto("/acts")
    page.click("a.name")
    assert "889 messages would be delivered again" in page.inner_text(".note.bad")
    page.set_viewport_size({"width": 420, "height": 1400})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.input_value("#allowed-drift") == "60"
    page.fill("#allowed-drift", "10000")
    page.click("button.primary")
    page.wait_for_selector("#confirm")
    assert [" 422 " in each for each in errors] == [True]  # Chromium logs the status of the form's page
    errors.clear()
    assert page.input_value("#allowed-drift") == "10000"
    page.fill("#confirm", "billing")
    page.click("button.primary")
    page.wait_for_url(f"**/acts/{new_plan.pk}")
    assert "The broker has not answered yet" in page.inner_text(".note")
    new_plan.refresh_from_db()
    assert (new_plan.plan or {})["allowed_drift_messages"] == 10_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_is_wider_than_a_narrow_window(page: Page, theme: str, shop: Shop) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for address in (
        "/topics",
        BILLING,
        f"{BILLING}/act/reset",
        "/acts",
        ORDERS,
        f"{ORDERS}/messages?sub=billing",
        "/consumers",
        "/producers",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 420, address


def test_a_cure_asks_for_its_plan_at_once(page: Page, shop: Shop) -> None:
    ConsumerSession.objects.update(blocked=False, permits=5, writable=True)
    page.goto(BILLING)
    page.click("#part-why button:text('Skip only this message')")
    page.wait_for_url("**/acts/*")
    assert f"Skip message {shop.sealed.pk}:5" in page.inner_text("main")


def test_a_consumer_is_disconnected_from_its_row_in_three_clicks(
    page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto("/consumers?flag=blocked")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith("/s/billing")
    page.click("text=Disconnect")
    assert (page.input_value("#consumer"), page.input_value("#consumer-key")) == ("clerk", "1")
    page.fill("#reason", "it keeps everything")
    page.click("button.primary")
    page.wait_for_url("**/acts/*")
    act = Act.objects.get()
    assert act.parameters == {"consumer_key": 1, "reason": "it keeps everything"}


def test_a_finding_with_a_long_name_fits_a_phone(page: Page, shop: Shop) -> None:
    ConsumerSession.objects.update(name="c" * 300)
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(BILLING)
    assert "c" * 300 in page.inner_text("#part-why .words >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_form_of_a_reset_fits_the_narrowest_phone(page: Page, shop: Shop) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(f"{BILLING}/act/reset")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_menu_of_a_phone_is_one_row_that_opens_without_scripts(
    chromium: Browser, page: Page, console_url: str, shop: Shop
) -> None:
    cookies = page.context.cookies()
    plain = chromium.new_context(
        base_url=console_url, viewport={"width": 390, "height": 844}, java_script_enabled=False
    )
    try:
        plain.add_cookies(
            [{"name": each["name"], "value": each["value"], "url": console_url} for each in cookies]
        )
        phone = plain.new_page()
        phone.goto("/acts")
        assert (box := phone.locator(".top").bounding_box()) is not None
        assert box["height"] <= 56
        link = phone.locator("nav[aria-label=Pages] a", has_text="Topics")
        assert not link.is_visible()
        phone.locator(".pages-button").click()
        for each in phone.locator("nav[aria-label=Pages] a").all():
            assert (target := each.bounding_box()) is not None
            assert target["height"] >= 44
        assert phone.locator("nav[aria-label=Pages] [aria-current]").inner_text() == "Acts"
        link.click()
        phone.wait_for_url("**/topics")
    finally:
        plain.close()


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_the_menu_of_a_small_desktop_is_one_row(page: Page, shop: Shop, language: str) -> None:
    page.set_extra_http_headers({"Accept-Language": language})
    heights = []
    for width in (1280, 1200, 1101):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto("/acts")
        page.locator(".menu-name").evaluate("(name) => { name.textContent = 'a-long-name-of-a-user' }")
        box = page.locator(".top").bounding_box()
        assert box is not None
        heights.append(box["height"])
    assert max(heights) < 60


def test_each_page_of_the_menu_has_a_key(page: Page, shop: Shop) -> None:
    links = page.locator("[data-go]").evaluate_all(
        "(links) => links.map((each) => [each.dataset.go, each.pathname])"
    )
    assert len(links) == 9
    for key, path in links:
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{path}")
        assert page.locator("nav[aria-label=Pages] [aria-current]").get_attribute("data-go") == key
        assert page.locator("#keys dt", has_text=f"g {key}").count() == 1


def test_tabs_scroll_sideways_on_a_phone_and_show_the_current_one(page: Page, shop: Shop) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{ORDERS}?tab=insights")
    assert (row := page.locator(".tabs").bounding_box()) is not None
    assert row["height"] < 60
    assert (tab := page.locator(".tabs [aria-current]").bounding_box()) is not None
    assert 0 <= tab["x"] < 390 - tab["width"]
