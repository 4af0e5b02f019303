"""The menu of acts and the forms in a real Chromium, on a phone too."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.integration.console.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = "/t/persistent/public/default/orders"
INSIDE = """() => {
  const box = document.querySelector(".offers").getBoundingClientRect();
  return box.left >= 0 && box.right <= window.innerWidth;
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_menu_stays_in_the_window_and_leads_to_a_form(
    width: int, page: Page, shop: Shop, errors: list[str]
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(ORDERS)
    assert not page.is_visible(".offers")
    page.click(".acts-menu summary")
    assert page.evaluate(INSIDE)
    assert "The topic is not partitioned" in page.inner_text(".offers")
    page.click(".offers >> text=Create bookmark")
    page.wait_for_url("**/act/bookmark")
    page.fill("[name=name]", "before the fix")
    page.fill("[name=id]", "oops")
    assert page.is_checked("#to-id")
    page.click("text=Preview")
    page.wait_for_selector("text=Write the message id as ledger:entry")
    assert page.input_value("[name=name]") == "before the fix"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "422" in errors.pop()


def test_the_tab_key_passes_the_fields_of_a_choice_without_choosing_it(page: Page, shop: Shop) -> None:
    page.goto(f"{ORDERS}/s/billing/act/reset")
    page.focus("#to-earliest")
    page.keyboard.press("Space")
    while page.evaluate("document.activeElement.type") != "submit":
        page.keyboard.press("Tab")
    assert page.is_checked("#to-earliest")
    page.click("[name=bookmark]")
    assert page.is_checked("#to-bookmark")
    page.select_option("[name=start]", "after")
    assert page.is_checked("#to-id")


def test_a_menu_that_escape_closes_gives_the_focus_back(page: Page, shop: Shop) -> None:
    page.goto(ORDERS)
    page.focus(".acts-menu summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.offers') !== null")
    page.keyboard.press("Escape")
    assert not page.is_visible(".offers")
    assert page.evaluate("document.activeElement.matches('.acts-menu summary')")


def test_a_message_is_edited_before_it_is_published_again(page: Page, shop: Shop, errors: list[str]) -> None:
    page.goto(f"{ORDERS}/m/{shop.sealed.pk}:3")
    page.click("text=Publish again")
    page.wait_for_url("**/again")
    assert page.input_value("[name=key]") == "customer-3"
    assert page.input_value("[name=properties]") == "region = eu"
    page.fill("[name=value]", "{")
    page.click("form:has([value=edited]) >> text=Preview")
    page.wait_for_selector("text=This is not JSON")
    assert page.input_value("[name=value]") == "{"
    assert "422" in errors.pop()
