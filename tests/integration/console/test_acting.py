"""An act without scripts, from its form through plan, apply and receipt to its undo."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from broker.acts import requests as acts
from broker.models import Subscription, Topic
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop
from tests.support.plans import a_plan

BILLING = "/t/persistent/public/default/orders/s/billing"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> FakeActs:
    """A broker that answers at once."""
    fake = FakeActs()
    for name in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


def test_an_act_leads_from_its_form_through_plan_and_receipt_to_its_undo(
    operator: Client, broker: FakeActs
) -> None:
    assert "1 hour" in text_of(operator.get(f"{BILLING}/act/rewind"))
    planned = operator.post(f"{BILLING}/act/rewind", {"back": "1h"}, follow=True)
    assert broker.asked[0] == (
        "plan",
        ("reset", ORDERS, "billing", {"to": "back_time", "back_ms": 3_600_000}, "ada", "console 127.0.0.1"),
    )
    assert planned.redirect_chain == [("/acts/1", 302)]
    words = text_of(planned)
    assert "Rewind by 1 h" in words
    assert "Delivered again 4 already acked Skipped 0 never delivered" in words
    assert "Backlog 12 messages 16 messages" in words
    assert "The oldest message kept is 3 s younger than the requested time." in words
    assert "2 messages a second are being acked." in words
    filled = {"reason": "tax service was down", "allowed_drift_messages": "60"}
    done = operator.post("/acts/1/apply", filled, follow=True)
    assert broker.asked[1] == ("apply", (1, "ada", "console 127.0.0.1", "tax service was down", 60))
    words = text_of(done)
    assert "Delivered again 4 up to 60 more 7" in words
    assert "Acked between preview and act 3 of them are delivered again too 4" in words
    assert "Published between preview and act 1" in words
    assert "Mark-delete moved from 1:4 to 1:0" in words
    undone = operator.post("/acts/1/undo", follow=True)
    assert undone.redirect_chain == [("/acts/2", 302)]
    assert "Undo act 1" in text_of(undone)


@pytest.mark.parametrize(
    ("kind", "filled", "asked"),
    [
        ("rewind", {"messages": "50"}, ("reset", {"to": "shift", "messages": -50})),
        ("reset", {"to": "latest"}, ("reset", {"to": "latest"})),
        (
            "reset",
            {"to": "id", "id": "45:0:5"},
            ("reset", {"to": "id", "id": "45:0:-1:5", "inclusive": True}),
        ),
        ("skip", {"messages": "3"}, ("skip", {"messages": 3})),
        ("skip_one", {"id": "45:0:5"}, ("skip_one", {"id": "45:0:-1:5"})),
        ("clear", {}, ("clear", {})),
    ],
)
def test_each_form_asks_the_broker_for_its_kind_of_act(
    kind: str, filled: dict[str, str], asked: tuple[str, object], operator: Client, broker: FakeActs
) -> None:
    assert operator.post(f"{BILLING}/act/{kind}", filled).status_code == 302
    _, given = broker.asked[-1]
    assert (given[0], given[3]) == asked


def test_a_plan_names_a_message_of_a_batch_as_the_pages_do(operator: Client, broker: FakeActs) -> None:
    inside = {"position": "45:0", "remaining": "e0"}  # the messages from index 5 are left
    target = {"mark_delete": "44:9", "next": "45:0", "inside": inside, "next_append_ms": 1000}
    broker.next_plan = a_plan(target={**target, "backlog_messages": 3})
    planned = operator.post(f"{BILLING}/act/reset", {"to": "id", "id": "45:0:5"}, follow=True)
    words = text_of(planned)
    assert "Reset to 45:0:5 " in words
    assert re.search(r"Next message 1:5 [^:]*[0-9:]+[^:]* 45:0:5 ", words)
    broker.next_plan = a_plan(target={**target, "inside": None, "backlog_messages": 8})
    planned = operator.post(f"{BILLING}/act/reset", {"to": "id", "id": "45:0"}, follow=True)
    assert re.search(r"Next message 1:5 [^:]*[0-9:]+[^:]* 45:0 ", text_of(planned))


@pytest.mark.parametrize(
    ("current", "shown"),
    [({"next": None}, "the next one published"), ({}, "–")],  # plans of earlier releases lack `next`
)
def test_a_plan_says_so_if_no_message_is_next_now(
    current: dict[str, None], shown: str, operator: Client, broker: FakeActs
) -> None:
    broker.next_plan = a_plan(current={"mark_delete": "1:4", "backlog_messages": 0, **current})
    planned = operator.post(f"{BILLING}/act/rewind", {"back": "1h"}, follow=True)
    assert f"Next message {shown} 1:1 " in text_of(planned)


def test_the_tabs_offer_only_acts_that_can_do_something(operator: Client, shop: Shop) -> None:
    def tabs(address: str) -> set[str]:
        return set(re.findall(r'act/(pause|resume|redrive)"', operator.get(address).content.decode()))

    assert tabs(f"{BILLING}/act/reset") == {"pause"}
    assert tabs(f"{BILLING}/act/redrive") == {"pause", "redrive"}, "the letters of a topic with another name"
    Subscription.objects.filter(pk=shop.billing.pk).update(paused=True)
    assert tabs(f"{BILLING}/act/reset") == {"resume"}
    letters = f"{ORDERS}-billing-DLQ"
    Topic.objects.filter(pk=shop.topic.pk).update(name=letters)
    assert tabs(f"{BILLING.replace('orders', 'orders-billing-DLQ')}/act/reset") == {"resume", "redrive"}


def test_an_unreadable_value_has_its_error_beside_the_field(operator: Client, broker: FakeActs) -> None:
    response = operator.post(f"{BILLING}/act/reset", {"to": "id", "id": "oops"})
    assert response.status_code == 422
    assert "Write the message id as ledger:entry" in text_of(response)
    assert 'value="oops"' in response.content.decode()
    assert broker.asked == []


def test_a_refused_plan_says_why(operator: Client, broker: FakeActs) -> None:
    broker.refusal = "the topic has no owner"
    response = operator.post(f"{BILLING}/act/clear")
    assert response.status_code == 409
    assert "Not planned. The topic has no owner." in text_of(response)


@pytest.mark.parametrize(
    "plan", [a_plan(skipped_messages=1, replayed_messages=0), a_plan(replayed_messages=10_001)]
)
def test_large_or_lossy_acts_need_the_name(
    plan: dict[str, object], operator: Client, broker: FakeActs
) -> None:
    broker.next_plan = plan
    page = operator.post(f"{BILLING}/act/clear", follow=True)
    assert "Type billing to confirm" in text_of(page)
    for typed in ("", "Billing"):
        refused = operator.post("/acts/1/apply", {"confirm": typed})
        assert refused.status_code == 422
        assert "to apply this" in text_of(refused)
    assert [what for what, _ in broker.asked] == ["plan"]
    assert operator.post("/acts/1/apply", {"confirm": "billing"}).status_code == 302


def test_an_apply_that_the_broker_refuses_says_why(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.refusal = "act 1 is applied: only a planned act can be applied"
    response = operator.post("/acts/1/apply")
    assert response.status_code == 409
    assert "Not done. Act 1 is applied" in text_of(response)


def test_the_second_of_two_clicks_shows_the_receipt(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    operator.post("/acts/1/apply")
    broker.refusal = "act 1 is applied: only a planned act can be applied"
    again = operator.post("/acts/1/apply", follow=True)
    assert again.redirect_chain == [("/acts/1", 302)]
    assert "Receipt" in text_of(again)


def test_an_apply_that_is_refused_because_it_would_do_more_offers_the_new_plan(
    operator: Client, looker: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/rewind", {"back": "1h"})
    broker.has_drifted = True
    page = operator.post("/acts/1/apply", {"allowed_drift_messages": "60"}, follow=True)
    words = text_of(page)
    assert "Refused. 889 messages would be delivered again, the plan showed 4." in words
    assert "The new preview act 2 Delivered again 889 already acked" in words
    assert 'action="/acts/2/apply"' in page.content.decode()
    assert "does not let you apply this plan" in text_of(looker.get("/acts/1"))
    broker.has_drifted = False
    done = operator.post("/acts/2/apply", {"allowed_drift_messages": "60"}, follow=True)
    assert done.redirect_chain == [("/acts/2", 302)]
    assert "Receipt" in text_of(done)
    assert "/acts/2/apply" not in operator.get("/acts/1").content.decode()


@pytest.mark.parametrize(("allowed", "must"), [("9996", False), ("9997", True)])
def test_the_name_is_typed_if_the_allowed_drift_makes_an_act_large(
    allowed: str, must: bool, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/rewind", {"back": "1h"})
    filled = {"allowed_drift_messages": allowed}
    refused = operator.post("/acts/1/apply", filled)
    assert refused.status_code == (422 if must else 302)
    assert not must or "Type billing to confirm" in text_of(refused)
    if must:
        assert operator.post("/acts/1/apply", {**filled, "confirm": "billing"}).status_code == 302


@pytest.mark.parametrize("allowed", ["-1", "many", "9" * 30])
def test_a_drift_that_is_not_a_number_has_its_error_beside_the_field(
    allowed: str, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/rewind", {"back": "1h"})
    refused = operator.post("/acts/1/apply", {"allowed_drift_messages": allowed})
    assert refused.status_code == 422
    assert 'id="allowed-drift-error"' in refused.content.decode()
    assert [what for what, _ in broker.asked] == ["plan"]


def test_an_act_that_was_undone_offers_no_undo_and_links_to_the_act_that_undid_it(
    operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    operator.post("/acts/1/apply")
    assert "Preview undo" in text_of(operator.get("/acts/1"))
    broker.acts[1] = replace(broker.acts[1], undoable=False, undone_by=9)
    page = operator.get("/acts/1")
    assert "Preview undo" not in text_of(page)
    assert 'This act was undone by <a href="/acts/9">act 9</a>' in page.content.decode()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"undone_by": 9}, "You cannot undo this act again: act 9 has undone it."),
        ({"moved_by": 8}, "act 8 moved the cursor after it. Only the latest move of a cursor can be undone."),
        ({"is_cursor_gone": True}, "the subscription was deleted with its cursor."),
        ({}, "You can no longer undo this act: the time for that ended"),
        ({"undo_until": None}, "VELA_UNDO_WINDOW_S gave no time for an undo."),
        ({"kind": "pause"}, "To undo it, resume the subscription."),
        ({"kind": "disconnect"}, "It cannot be undone."),
    ],
)
def test_an_act_that_cannot_be_undone_says_why_where_the_button_would_be(
    changes: dict[str, Any], why: str, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    operator.post("/acts/1/apply")
    broker.acts[1] = replace(broker.acts[1], undoable=False, **changes)
    words = text_of(operator.get("/acts/1"))
    assert why in re.sub(r" (?=[:.])", "", words)
    assert "Preview undo" not in words


def test_a_user_who_may_not_undo_an_act_learns_who_can(
    looker: Client, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    operator.post("/acts/1/apply")
    assert "Your role does not let you undo this act." in text_of(looker.get("/acts/1"))


def test_a_receipt_of_a_disconnect_has_no_table_of_zeros(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.acts[1] = replace(
        broker.acts[1],
        kind="disconnect",
        state="applied",
        plan={"consumers_closed": 1, "replayed_messages": 0, "skipped_messages": 0},
        result={
            "words": ["consumer clerk is closed; 1 message that it has not acked is delivered again"],
            "consumers_closed": 1,
            "replayed_messages": 0,
            "skipped_messages": 0,
        },
    )
    words = text_of(operator.get("/acts/1"))
    assert "Consumer clerk is closed; 1 message that it has not acked is delivered again." in words
    assert "Consumers closed 1 1" in words
    assert "Skipped" not in words


def test_the_name_of_a_topic_is_typed_where_there_is_no_subscription(
    operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.acts[1] = replace(
        broker.acts[1], kind="truncate", subscription="", plan=a_plan(skipped_messages=3)
    )
    assert "Type orders to confirm" in text_of(operator.get("/acts/1"))
    assert operator.post("/acts/1/apply", {"confirm": ""}).status_code == 422
    assert operator.post("/acts/1/apply", {"confirm": "orders"}).status_code == 302


def test_an_undo_that_the_broker_refuses_gets_409(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    operator.post("/acts/1/apply")
    broker.refusal = "only the latest act on a cursor can be undone"
    assert operator.post("/acts/1/undo").status_code == 409


def test_without_a_broker_the_act_waits_and_says_so(operator: Client, broker: FakeActs) -> None:
    from broker.models import BrokerProcess

    broker.answers = False
    page = operator.post(f"{BILLING}/act/clear", follow=True)
    assert "The broker has not answered yet" in text_of(page)
    BrokerProcess.objects.all().delete()
    words = text_of(operator.get("/acts/1"))
    assert "No broker is running, so the act waits" in words
    assert "If a broker starts within 10 min of the request" in words
    broker.acts[1] = replace(broker.acts[1], progress={})
    assert "A broker began the act, so the next broker finishes it." in text_of(operator.get("/acts/1"))
    html = page.content.decode()
    assert 'sse-connect="/live?key=act:1"' in html
    assert 'hx-trigger="sse:act:1 delay:20ms, refresh"' in html
    assert "HX-Refresh" not in operator.get("/acts/1?part=state")


def test_the_part_of_an_answered_act_makes_the_browser_read_the_whole_page(
    operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    assert operator.get("/acts/1?part=state")["HX-Refresh"] == "true"
    page = operator.get("/acts/1")
    assert "HX-Refresh" not in page
    assert 'sse-connect="/live"' in page.content.decode()


def test_the_page_of_an_act_that_is_being_applied_waits_for_its_receipt(
    operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.acts[1] = replace(broker.acts[1], state="applying")
    assert 'sse-connect="/live?key=act:1"' in operator.get("/acts/1").content.decode()
    assert "HX-Refresh" not in operator.get("/acts/1?part=state")


@pytest.mark.parametrize("state", ["refused", "failed", "expired"])
def test_an_act_that_did_not_happen_says_why(state: str, operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.acts[1] = replace(broker.acts[1], state=state, error="another act moved the cursor")
    words = text_of(operator.get("/acts/1"))
    assert f"{state.capitalize()}. Another act moved the cursor." in words
    assert "What was planned" in words
    assert "What will happen" not in words
    assert "Apply:" not in words


def test_a_redrive_that_failed_says_how_far_it_got(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.acts[1] = replace(
        broker.acts[1],
        kind="redrive",
        state="failed",
        error="cannot publish to pears",
        plan={"redriven_messages": 50},
        progress={"redriven_messages": 10, "targets": {}},
    )
    words = text_of(operator.get("/acts/1"))
    assert "Published again 50 10" in words
    assert "What will happen" not in words


@pytest.mark.parametrize(
    ("act", "parameters", "form"),
    [
        ("delete", {}, "delete"),
        ("skip", {"messages": "5"}, "skip"),
        ("rewind", {"messages": "5"}, "rewind"),
        ("reset", {"to": "earliest"}, "reset"),
    ],
)
def test_a_refused_act_leads_back_to_its_form(
    act: str, parameters: dict[str, str], form: str, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/{act}", parameters)
    refused = replace(
        broker.acts[1], state="refused", error="1 consumer uses billing: disconnect it, or set force to true"
    )
    broker.acts[1] = refused
    page = operator.get("/acts/1")
    assert f'href="{BILLING}/act/{form}">Change the request' in page.content.decode()
    switch = "choose “Disconnect its consumers”" if act == "delete" else "set force to true"
    assert f"disconnect it, or {switch}." in text_of(page)


def test_a_refusal_names_the_message_as_it_was_typed(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/skip_one", {"id": "45:0:5"})
    broker.acts[1] = replace(broker.acts[1], state="refused", error="45:0:-1:5 is already acknowledged")
    assert "Refused. 45:0:5 is already acknowledged." in text_of(operator.get("/acts/1"))


def test_a_refused_act_on_a_subscription_that_is_gone_leads_to_no_form(
    operator: Client, broker: FakeActs, shop: Shop
) -> None:
    operator.post(f"{BILLING}/act/clear")
    broker.acts[1] = replace(broker.acts[1], state="refused", error="no such subscription")
    assert "Change the request" in text_of(operator.get("/acts/1"))
    shop.billing.name = "another"
    shop.billing.save()
    assert "Change the request" not in text_of(operator.get("/acts/1"))


@pytest.mark.parametrize("kind", ["delete_subscription", "unsubscribe", "expire_subscription"])
def test_an_act_that_deleted_its_subscription_leads_back_to_the_topic(
    kind: str, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{BILLING}/act/clear")
    act = broker.acts[1]
    broker.acts[1] = replace(
        act, kind=kind, state="applied", finished_at=act.created_at, result={"words": []}
    )
    page = operator.get("/acts/1").content.decode()
    assert f'href="{BILLING.partition("/s/")[0]}">Back to orders' in page
    assert f'href="{BILLING}"' not in page
    assert "/past?at=" not in page


def test_a_viewer_may_not_act(looker: Client, operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    asked = len(broker.asked)
    assert looker.get(f"{BILLING}/act/rewind").status_code == 403
    for address in (f"{BILLING}/act/clear", "/acts/1/apply", "/acts/1/undo"):
        assert looker.post(address).status_code == 403
    page = looker.get("/acts/1")
    assert "Apply:" not in text_of(page)
    assert "does not let you apply this plan" in text_of(page)
    assert len(broker.asked) == asked


def test_without_a_login_no_act_is_possible(anonymous: Client, broker: FakeActs) -> None:
    for address in (f"{BILLING}/act/clear", "/acts/1/apply", "/acts/1/undo"):
        assert anonymous.post(address)["Location"].startswith("/login")


def test_acts_need_the_csrf_token(operator: Client, broker: FakeActs) -> None:
    operator.post(f"{BILLING}/act/clear")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert strict.post("/acts/1/apply").status_code == 403
