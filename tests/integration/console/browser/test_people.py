"""A user's own account in a real Chromium: times that scripts write are in the chosen time zone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.integration.console.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)


def test_scripts_write_times_in_the_chosen_zone(page: Page, shop: Shop, errors: list[str]) -> None:
    page.goto("/account")
    assert page.evaluate("Vela.inZone(1790000000000)") == "2026-09-21 14:13:20"
    page.select_option("#zone", "Asia/Kolkata")
    page.click("text=Set the time zone")
    page.wait_for_url("**/account?done=zone")
    assert page.evaluate("Vela.inZone(1790000000000)") == "2026-09-21 19:43:20"
    page.goto("/topics")
    assert "Times are Asia/Kolkata" in page.inner_text("footer")
    # Leave the page: without its session it would reload itself, and interrupt the next navigation.
    page.goto("about:blank")
    page.context.clear_cookies()
    page.goto("/login")  # the same server thread answers, and must have forgotten the zone
    assert "Times are UTC" in page.inner_text("footer")
    assert errors == []
