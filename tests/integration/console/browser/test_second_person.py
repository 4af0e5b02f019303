"""One user's plan in another user's window, by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from broker.acts import requests as acts
from broker.models import Namespace
from tests.integration.console.shop import Shop
from tests.integration.console.test_second_person import a_planned_act, state_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_second_person_finds_a_plan_and_refuses_it_by_keyboard(
    theme: str, page: Page, shop: Shop, errors: list[str]
) -> None:
    Namespace.objects.filter(tenant__name="public").update(policies={"second_person": True})
    act = a_planned_act(shop, who="ben")
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.goto("/")
    assert "Plans that wait for a second person" in page.inner_text("main")
    page.focus(f"main a[href='/acts/{act.pk}']")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/acts/{act.pk}")
    assert "ben planned this one" in page.inner_text("main .note[role=status]")
    page.focus("#why")
    page.keyboard.type("not today")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=User ada refused the plan: not today")
    assert state_of(act)[:3] == ("refused", "ada", "ben")
    assert errors == []


def test_the_planners_page_shows_the_decision_by_itself(page: Page, shop: Shop, errors: list[str]) -> None:
    Namespace.objects.filter(tenant__name="public").update(policies={"second_person": True})
    act = a_planned_act(shop, who="ada")
    with page.expect_response(lambda answer: "/live" in answer.url):
        page.goto(f"/acts/{act.pk}")
    assert "You planned this one" in page.inner_text("main .note[role=status]")
    acts.refuse(act.pk, who="ben", origin="console 10.0.0.2", reason="not today")
    page.wait_for_selector("text=User ben refused the plan: not today")
    page.wait_for_selector("text=Withdraw the plan", state="detached")
    assert errors == []
