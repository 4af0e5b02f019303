"""Users in a real Chromium: the time zone of an account, and a new user's password."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route

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
    page.goto("/login")  # the same server thread answers, without the zone of the last request
    assert "Times are UTC" in page.inner_text("footer")
    assert errors == []


def test_a_double_click_shows_the_password_of_the_new_user(page: Page, shop: Shop) -> None:
    """The second answer would be that the name is taken, and the password would be lost."""
    page.goto("/users/new")
    page.fill("#name", "ben")
    held: list[Route] = []
    page.route("**/users/new", lambda route: held.append(route))
    click = "document.querySelector('main button.primary').click()"
    with page.expect_request("**/users/new"):
        page.evaluate(click)
    page.evaluate(click)
    page.unroute("**/users/new")
    for route in held:
        route.continue_()
    page.wait_for_selector("text=The password is")
