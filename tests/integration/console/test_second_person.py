"""Two people on a page and at the API, without scripts: one user plans, another applies or refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.timezone import now

from broker.models import Act, Namespace
from broker.storage.acts import requests as store
from console.access import Role
from tests.integration.console.conftest import person
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop
from tests.support.plans import a_plan

pytestmark = pytest.mark.django_db(transaction=True)

HOME = "public/default"
WAITS = "This plan waits for a second person."


@pytest.fixture(autouse=True)
def guarded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace has the policy second_person. No broker runs, and no request waits for a broker."""
    Namespace.objects.filter(tenant__name="public").update(policies={"second_person": True})
    monkeypatch.setattr(store, "wait", lambda act_id, _wait_s: store.get(act_id))


@pytest.fixture
def ben(guarded: None) -> Client:
    """Ben is an operator of the namespace."""
    return person("ben", {HOME: Role.OPERATOR})


@pytest.fixture
def stranger(guarded: None) -> Client:
    """Otis is an operator of another namespace."""
    return person("otis", {"other/*": Role.OPERATOR})


def a_planned_act(shop: Shop, **changes: Any) -> Act:
    """Add a reset that Ada has planned on a page."""
    return Act.objects.create(
        **{
            "kind": "reset",
            "state": "planned",
            "topic": shop.topic,
            "subscription": shop.billing,
            "topic_name": ORDERS,
            "subscription_name": "billing",
            "parameters": {"to": "earliest"},
            "plan": a_plan(),
            "who": "ada",
            "origin": "console 10.0.0.1",
            "requested_at": now(),
            "finished_at": now(),
            **changes,
        }
    )


def state_of(act: Act) -> tuple[str, str, Any, Any]:
    act.refresh_from_db()
    plan = act.plan or {}
    return act.state, act.who, plan.get("planned_by"), plan.get("planned_from")


def test_the_planner_hands_the_plan_over(operator: Client, ben: Client, shop: Shop) -> None:
    act = a_planned_act(shop)
    page = operator.get(f"/acts/{act.pk}")
    words, html = text_of(page), page.content.decode()
    assert (
        f"{WAITS} On {HOME} one user plans an act and another user applies it. You planned this one." in words
    )
    assert "Ask one of them: ben ." in words
    assert f"http://testserver/acts/{act.pk} vela acts apply {act.pk}" in words
    assert f"/acts/{act.pk}/apply" not in html
    assert "Withdraw the plan" in words
    forged = operator.post(f"/acts/{act.pk}/apply", {"reason": "x"})
    assert forged.status_code == 409
    assert f"Not done. Act {act.pk} waits for a second person" in text_of(forged)
    other_session = Client()
    other_session.force_login(User.objects.get(username="ada"))
    assert other_session.post(f"/acts/{act.pk}/apply").status_code == 409
    assert state_of(act) == ("planned", "ada", None, None)


def test_the_page_of_a_waiting_plan_comes_again_with_the_form_when_it_is_planned(
    operator: Client, shop: Shop
) -> None:
    """The form for refusing the plan is outside the block that the page refreshes by itself."""
    act = a_planned_act(shop, state="plan_requested", plan=None, finished_at=None)
    waiting = operator.get(f"/acts/{act.pk}?part=state")
    act.state, act.plan, act.finished_at = "planned", a_plan(), now()
    act.save()
    planned = operator.get(f"/acts/{act.pk}?part=state", headers={"if-none-match": waiting["ETag"]})
    assert planned["HX-Refresh"] == "true"
    again = operator.get(f"/acts/{act.pk}?part=state", headers={"if-none-match": planned["ETag"]})
    assert again.status_code == 304
    assert "HX-Refresh" not in again


def test_the_page_and_the_overview_show_the_waiting_plan_in_chinese(operator: Client, shop: Shop) -> None:
    act = a_planned_act(shop)
    for address, words in ((f"/acts/{act.pk}", "此计划在等待第二个人。"), ("/", "等待第二个人的计划")):
        assert words in text_of(operator.get(address, headers={"accept-language": "zh-hans"}))


def test_the_page_says_when_no_one_else_could_apply_the_plan(
    operator: Client, looker: Client, stranger: Client, shop: Shop
) -> None:
    words = text_of(operator.get(f"/acts/{a_planned_act(shop).pk}"))
    assert "Nobody else has this role yet: an admin can give it to a second user under Users ." in words


def test_the_second_person_sees_the_same_preview_and_applies_it(
    operator: Client, ben: Client, shop: Shop
) -> None:
    act = a_planned_act(shop)
    page = ben.get(f"/acts/{act.pk}")
    words = text_of(page)
    assert (
        f"{WAITS} On {HOME} one user plans an act and another user applies it. The user ada planned this one."
        in words
    )
    preview = "Delivered again 4 already acked Skipped 0 never delivered"
    assert preview in words
    assert preview in text_of(operator.get(f"/acts/{act.pk}"))
    assert ben.post(f"/acts/{act.pk}/apply", {"reason": "ada asked"}).status_code == 302
    assert state_of(act) == ("apply_requested", "ben", "ada", "console 10.0.0.1")
    words = text_of(operator.get(f"/acts/{act.pk}"))
    assert "requested by ada (console 10.0.0.1)" in words
    assert "Apply requested by ben (console 127.0.0.1)" in words
    assert "Applied by" not in words
    Act.objects.filter(pk=act.pk).update(state="applied")
    assert "Applied by ben (console 127.0.0.1)" in text_of(operator.get(f"/acts/{act.pk}"))
    assert "ben console 127.0.0.1 planned by ada" in text_of(operator.get("/acts"))
    (row,) = operator.get("/api/v1/acts?q=ada").json()["acts"]
    assert (row["who"], row["plan"]["planned_by"]) == ("ben", "ada")


@pytest.mark.parametrize(
    ("name", "words"), [("ben", "user ben refused the plan: too late"), ("ada", "user ada withdrew the plan")]
)
def test_a_plan_is_refused_or_withdrawn(
    name: str, words: str, operator: Client, ben: Client, shop: Shop
) -> None:
    act = a_planned_act(shop)
    who = {"ada": operator, "ben": ben}[name]
    given = {"why": "too late"} if name == "ben" else {}
    page = who.post(f"/acts/{act.pk}/refuse", given, follow=True)
    assert page.redirect_chain == [(f"/acts/{act.pk}", 302)]
    assert words.capitalize() in text_of(page)
    assert state_of(act)[0] == "refused"
    again = who.post(f"/acts/{act.pk}/refuse")
    assert (again.status_code, "is refused: only a planned act can be refused" in text_of(again)) == (
        409,
        True,
    )


def test_users_without_the_role_neither_apply_nor_refuse(
    looker: Client, stranger: Client, shop: Shop
) -> None:
    act = a_planned_act(shop)
    for verb in ("apply", "refuse"):
        assert looker.post(f"/acts/{act.pk}/{verb}").status_code == 403
        assert stranger.post(f"/acts/{act.pk}/{verb}").status_code == 404
        assert (
            stranger.post(f"/api/v1/acts/{act.pk}/{verb}", content_type="application/json").status_code == 404
        )
        assert stranger.post(f"/acts/{act.pk + 1}/{verb}").status_code == 404, "there is no such act"
    assert state_of(act)[0] == "planned"


def test_a_superuser_needs_a_second_person_too(ben: Client, shop: Shop, admin_client: Client) -> None:
    act = a_planned_act(shop, who="admin")
    refused = admin_client.post(f"/api/v1/acts/{act.pk}/apply", content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "SecondPersonNeeded")
    assert admin_client.post(f"/acts/{act.pk}/apply").status_code == 409
    assert ben.post(f"/acts/{act.pk}/apply").status_code == 302


def test_the_api_follows_the_same_rules_as_the_pages(operator: Client, ben: Client, shop: Shop) -> None:
    act = a_planned_act(shop)
    path = f"/api/v1/acts/{act.pk}"
    shown = operator.get(path).json()
    assert (shown["needs_second_person"], shown["planned_by"]) == (True, "ada")
    refused = operator.post(f"{path}/apply", content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "SecondPersonNeeded")
    body = {"reason": "wrong place"}
    done = ben.post(f"{path}/refuse", body, content_type="application/json").json()
    assert (done["state"], done["error"], done["who"], done["planned_by"]) == (
        "refused",
        "user ben refused the plan: wrong place",
        "ben",
        "ada",
    )
    assert ben.post(f"{path}/apply", content_type="application/json").status_code == 409


def test_a_plan_without_an_account_says_so(ben: Client, shop: Shop) -> None:
    act = a_planned_act(shop, who="root", origin="command line")
    page = ben.get(f"/acts/{act.pk}")
    assert "Nobody can apply this plan." in text_of(page)
    assert f"/acts/{act.pk}/apply" not in page.content.decode()
    assert ben.post(f"/acts/{act.pk}/apply").status_code == 409


def test_an_expired_plan_is_not_applied(ben: Client, shop: Shop) -> None:
    act = a_planned_act(shop, state="expired")
    refused = ben.post(f"/acts/{act.pk}/apply")
    assert (refused.status_code, "is expired" in text_of(refused)) == (409, True)


def test_the_overview_lists_what_waits(ben: Client, stranger: Client, shop: Shop) -> None:
    act = a_planned_act(shop)
    a_planned_act(shop, who="root", origin="command line")
    a_planned_act(shop, state="expired")
    page = ben.get("/?part=plans")
    assert "Reset to the beginning billing orders ada" in text_of(page).replace("reset", "Reset")
    assert page.content.decode().count("data-row") == 1
    assert f'href="/acts/{act.pk}"' in page.content.decode()
    assert "data-row" not in stranger.get("/?part=plans").content.decode()
    Namespace.objects.filter(tenant__name="public").update(policies={})
    assert "data-row" not in ben.get("/?part=plans").content.decode()


def test_the_namespace_says_that_acts_need_a_second_person(ben: Client, shop: Shop) -> None:
    words = text_of(ben.get(f"/n/{HOME}"))
    assert "every act needs a second person" in words
    assert "One user plans each act on this namespace and its topics, and another user applies it." in words
    assert "second person" in text_of(ben.get("/namespaces"))
    (row,) = ben.get("/api/v1/namespaces").json()["namespaces"]
    assert row["second_person"] is True
