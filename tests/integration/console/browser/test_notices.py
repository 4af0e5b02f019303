"""Open pages show a notice while a process behind them is silent. The acceptance tests freeze the real processes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils.timezone import now
from playwright.sync_api import Page

from broker.models import BrokerProcess, Heartbeat
from tests.integration.console.shop import NEVER_SILENT, Shop
from tests.integration.console.test_browser import BILLING

pytestmark = pytest.mark.django_db(transaction=True)

BADGE = "getComputedStyle(document.querySelector('.badge.judged'), '::before').content"
AT_PEACE = "body:not(.unsure, .unread)"


def test_open_pages_show_a_notice_while_the_broker_is_silent(page: Page, shop: Shop) -> None:
    page.goto(BILLING)
    page.wait_for_selector(".pulse.on")
    assert page.evaluate(BADGE) == "none"
    BrokerProcess.objects.update(seen_at=now() - timedelta(seconds=9))
    page.wait_for_selector(".notice:has-text('The broker is silent')")
    assert "unknown" in page.evaluate(BADGE)
    page.wait_for_selector(".part-age:visible")
    BrokerProcess.objects.update(seen_at=now() + NEVER_SILENT)
    page.wait_for_selector(AT_PEACE)
    page.wait_for_selector(".notice", state="detached")
    assert page.evaluate(BADGE) == "none"


def test_open_pages_show_a_notice_while_beat_is_silent(page: Page, shop: Shop) -> None:
    page.goto("/acts")
    page.wait_for_selector(".pulse.on")
    Heartbeat.objects.filter(name="beat").update(at=now() - timedelta(seconds=9))
    page.wait_for_selector(".notice:has-text('Celery beat is silent')")
    page.wait_for_selector(AT_PEACE)
    Heartbeat.objects.update(at=now() + NEVER_SILENT)
    page.wait_for_selector(".notice", state="detached")


def test_the_age_of_a_notice_is_not_read_out_every_second(page: Page, shop: Shop) -> None:
    page.goto(BILLING)
    page.wait_for_selector(".pulse.on")
    BrokerProcess.objects.update(seen_at=now() - timedelta(seconds=9))
    page.wait_for_selector("[data-notices] time.ago[aria-hidden=true]", timeout=10_000)
    assert page.locator("[data-notices] time:not(.ago)[aria-hidden]").count() == 0
    assert page.locator("main time.ago[aria-hidden]").count() == 0


def test_without_a_stream_only_live_blocks_are_read_again(page: Page, shop: Shop) -> None:
    page.goto(f"/t/persistent/public/default/orders/m/{shop.sealed.pk}:5")
    page.wait_for_selector(".pulse.on")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request(lambda request: "part=subscriptions" in request.url):
        page.evaluate("""() => {
            for (const part of document.querySelectorAll(".part")) part.velaRead_ms = 0;
            setInterval(() => document.dispatchEvent(new CustomEvent("vela:silence")), 50);
        }""")
    with page.expect_request(lambda request: "part=subscriptions" in request.url):
        page.evaluate("document.querySelector('#part-subscriptions').velaRead_ms = 0")
    assert {url.rpartition("part=")[2] for url in asked if "part=" in url} == {"subscriptions"}
