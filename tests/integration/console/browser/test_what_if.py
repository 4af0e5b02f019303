"""The slider that estimates the time left with another number of consumers, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from broker.models import TopicSummary
from tests.integration.console.shop import Shop
from tests.integration.console.test_subscription import BILLING, fall_behind

pytestmark = pytest.mark.django_db(transaction=True)

ANSWER = ".what-if output"


def test_the_slider_answers_and_keeps_its_number(page: Page, shop: Shop, errors: list[str]) -> None:
    fall_behind(shop)
    page.goto(BILLING)
    page.wait_for_selector("#with[type=range]")
    assert page.locator(".what-if button").count() == 0
    assert page.inner_text(ANSWER) == "With 2 consumers: about 12\u202fs to go."
    page.focus("#with")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(ANSWER) == "With 4 consumers: about 2\u202fs to go."
    assert page.get_attribute("#with", "aria-valuetext") == page.inner_text(ANSWER)
    TopicSummary.objects.update(message_rate_in=4.0)
    page.evaluate("document.activeElement.blur(); htmx.trigger('#part-what_if', 'refresh')")
    page.wait_for_selector("text=With 4 consumers: about 3\u202fs to go.")
    assert page.get_attribute("#with", "type") == "range"
    assert errors == []
