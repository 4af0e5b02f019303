"""Every page in a real Chromium: axe finds nothing serious, the browser reports no error, and pages fit a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, ViewportSize

from console.urls import urlpatterns
from tests.integration.console.furnished import BILLING, furnish_everything
from tests.integration.console.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
DESKTOP: Final[ViewportSize] = {"width": 1280, "height": 900}
TALLEST_HEADER: Final = 56
LEAST_TARGET: Final = 44
MOST_SCREENS: Final = 3  # of a subscription's page on a phone
NOT_PAGES: Final = {
    "logout", "theme", "language", "troubles", "messages_export", "message_raw", "delete_namespace", "act_apply",
    "act_refuse", "act_undo",
    "set_own_password", "set_own_zone", "set_user_password", "set_user_role", "set_user_active",
    "act_on_alert_rule", "act_on_run", "unschedule", "acts_export", "change_view", "begin_oidc", "end_oidc",
    "login_code", "login_second_factor", "remove_own_second_factor", "renew_own_recovery_codes", "remove_user_factor",
    "revoke_token",
}  # fmt: skip
"""Addresses that redirect, or send data."""

# Finds targets that are too small for a finger: buttons, fields and links that stand alone. A link inside a sentence
# may be small, and so may the first link of a table's row, because the row's height is its target.
SMALL_TARGETS: Final = """(least) => {
  const shown = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const chosen = "button, select, summary, .button, .tabs a, .pager a, .windows a, input:not([type=hidden])";
  return [...document.querySelectorAll(chosen)].filter(shown).flatMap((element) => {
    const target = /^(radio|checkbox)$/.test(element.type) ? element.closest("label, .choice, p, li") : element;
    const box = target.getBoundingClientRect();
    const small = box.height < least - 0.5 || box.width < least - 0.5;
    return small && box.height > 1 ? [`${element.outerHTML.slice(0, 90)} ${box.width}x${box.height}`] : [];
  });
}"""


@pytest.fixture
def everything(shop: Shop) -> dict[str, list[str]]:
    """The addresses of a shop with something on every page."""
    return furnish_everything(shop, "week 12")


@pytest.fixture
def page(chromium: Browser, console_url: str, errors: list[str]) -> Iterator[Page]:
    """A logged-in operator's window, in the light theme of the system."""
    person = Client()
    person.force_login(User.objects.create_user("ada", is_superuser=True))
    context = chromium.new_context(base_url=console_url, viewport=DESKTOP, color_scheme="light")
    context.set_default_timeout(30_000)
    context.add_cookies(
        [{"name": "sessionid", "value": person.cookies["sessionid"].value, "url": console_url}]
    )
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()


def findings(page: Page, **options: Any) -> list[str]:
    """Return the serious and critical findings of axe, each with its rule and element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    answer = page.evaluate(
        "(options) => axe.run(document, options)", {"resultTypes": ["violations"], **options}
    )
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in answer["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def test_every_page_is_accessible_and_fits_a_phone(
    page: Page, everything: dict[str, list[str]], errors: list[str]
) -> None:
    named = {pattern.name for pattern in urlpatterns}
    assert named == {"login", *everything, *NOT_PAGES}, "give each new page an address here"
    wrong: list[str] = []
    for address in (*(each for some in everything.values() for each in some), "/login"):
        if address == "/login":
            page.context.clear_cookies()
        page.set_viewport_size(DESKTOP)
        page.emulate_media(color_scheme="light")
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        found = findings(page)
        page.emulate_media(color_scheme="dark")
        found += [f"dark {each}" for each in findings(page, runOnly=["color-contrast"])]
        page.set_viewport_size(PHONE)
        found += phone_findings(page)
        wrong += [f"{address}: {each}" for each in [*found, *errors]]
        errors.clear()
    assert wrong == []


def test_chinese_pages_are_accessible_and_fit_a_phone(
    page: Page, everything: dict[str, list[str]], errors: list[str]
) -> None:
    page.goto("/account")
    page.click("text=简体中文")
    assert page.get_attribute("html", "lang") == "zh-hans"
    wrong: list[str] = []
    for address in ("/", BILLING, f"{BILLING}/act/reset"):
        page.set_viewport_size(DESKTOP)
        page.goto(address)
        assert page.get_attribute("html", "lang") == "zh-hans"
        found = findings(page)
        page.set_viewport_size(PHONE)
        found += phone_findings(page)
        wrong += [f"{address}: {each}" for each in [*found, *errors]]
        errors.clear()
    assert wrong == []


def phone_findings(page: Page) -> list[str]:
    """Return what is wrong with the page in a narrow window."""
    found = []
    if (width := page.evaluate("document.documentElement.scrollWidth")) > PHONE["width"]:
        found.append(f"the page is {width} px wide")
    header = page.locator(".top").bounding_box()
    if header is not None and header["height"] > TALLEST_HEADER:
        found.append(f"the header is {header['height']} px high")
    return [*found, *page.evaluate(SMALL_TARGETS, LEAST_TARGET)]


def test_a_subscription_fits_three_screens_of_a_phone(page: Page, everything: dict[str, list[str]]) -> None:
    page.set_viewport_size(PHONE)
    page.goto(BILLING)
    assert page.evaluate("document.documentElement.scrollHeight") <= MOST_SCREENS * PHONE["height"]
    pending = page.locator("#part-pending")
    assert not pending.is_visible()
    page.click("text=Pending acks")
    assert pending.is_visible()
    page.goto(f"{BILLING}?consumer=1#part-pending")
    assert pending.is_visible()
    page.set_viewport_size(DESKTOP)
    page.goto(BILLING)
    assert pending.is_visible()
    assert not page.locator(".fold-title").first.is_visible()
