"""The act log and a subscription's recent acts."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.models import Act
from console.queries.acts import LOG_ROWS, ActsAsked, act_log, acts_of
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop


def an_act(shop: Shop, **changes: Any) -> Act:
    return Act.objects.create(
        **{
            "kind": "reset",
            "state": "applied",
            "topic": shop.topic,
            "subscription": shop.billing,
            "topic_name": shop.topic.name,
            "subscription_name": "billing",
            "parameters": {"to": "earliest"},
            "result": {"replayed_messages": 12, "skipped_messages": 0},
            "cursor_before": b"{}",
            "finished_at": now(),
            "who": "ada",
            "origin": "console 10.0.0.1",
            "requested_at": now(),
            **changes,
        }
    )


@pytest.fixture
def history(shop: Shop) -> list[Act]:
    """Three acts, the last one open for undo."""
    return [
        an_act(
            shop, kind="clear", state="refused", parameters={}, result=None, error="plan again", who="vera"
        ),
        an_act(shop, undo_until=now() + timedelta(hours=1)),
        an_act(shop, kind="skip", parameters={"messages": 2}, undo_until=now() + timedelta(hours=1)),
    ]


def numbers(response: Any) -> list[int]:
    return [
        int(number) for number in re.findall(r'class="name" href="/acts/(\d+)"', response.content.decode())
    ]


@pytest.mark.parametrize(
    ("query", "which"),
    [
        ("", [2, 1, 0]),
        ("?kind=skip", [2]),
        ("?state=refused", [0]),
        ("?q=vera", [0]),
        ("?q=BILL", [2, 1, 0]),
        ("?q=none", []),
        ("?before=nonsense", [2, 1, 0]),
    ],
)
def test_filters(query: str, which: list[int], looker: Client, history: list[Act]) -> None:
    assert numbers(looker.get(f"/acts{query}")) == [history[number].pk for number in which]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?kind=rewind", "There is no kind of act named “rewind”."),
        ("?state=done", "An act is never in a state named “done”."),
        ("?kind=clear&state=applied", "No act matches this filter."),
    ],
)
def test_an_empty_list_says_why(query: str, sentence: str, looker: Client, history: list[Act]) -> None:
    words = text_of(looker.get(f"/acts{query}"))
    sentences = ("There is no kind of act", "An act is never in a state", "No act matches")
    assert sentence in words
    assert [each for each in sentences if each in words] == [
        each for each in sentences if sentence.startswith(each)
    ]


def test_a_row_says_who_what_and_what_it_did(looker: Client, history: list[Act]) -> None:
    words = text_of(looker.get("/acts"))
    assert "reset to the beginning billing orders" in words
    assert "12 0 ada console 10.0.0.1" in words
    assert "refused Plan again." in words


def test_the_log_says_what_can_be_undone_as_the_subscriptions_page_does(history: list[Act]) -> None:
    logged, _ = act_log(ActsAsked())
    subscription_id = history[2].subscription_id
    assert subscription_id is not None
    assert [row.undoable for row in logged] == [True, False, False]
    assert [row.undoable for row in acts_of(subscription_id)] == [True, False, False]


def test_an_act_that_was_undone_says_by_which(looker: Client, history: list[Act], shop: Shop) -> None:
    done = history[2]
    an_act(shop, kind="undo", parameters={}, undo_of=done, state="refused")
    logged, _ = act_log(ActsAsked())
    assert (logged[1].undoable, logged[1].undone_by_id) == (True, None)
    undo = an_act(shop, kind="undo", parameters={}, undo_of=done, undo_until=now() + timedelta(hours=1))
    logged, _ = act_log(ActsAsked())
    assert [(row.undoable, row.undone_by_id) for row in logged[:3]] == [
        (True, None),
        (False, None),
        (False, undo.pk),
    ]
    assert done.subscription_id is not None
    assert acts_of(done.subscription_id)[2].undone_by_id == undo.pk
    assert f"undone by {undo.pk}" in text_of(looker.get("/acts"))


def test_pages_follow_each_other(looker: Client, shop: Shop) -> None:
    made = [an_act(shop).pk for _ in range(LOG_ROWS + 5)]
    first = looker.get("/acts")
    following = re.search(r'href="(\?[^"]*)"\s+rel="next"', first.content.decode())
    assert following is not None
    found = numbers(first) + numbers(looker.get(f"/acts{following[1].replace('&amp;', '&')}"))
    assert found == sorted(made, reverse=True)


def test_only_the_latest_applied_act_offers_undo(operator: Client, history: list[Act]) -> None:
    html = operator.get("/t/persistent/public/default/orders/s/billing?part=acts").content.decode()
    assert re.findall(r'href="/acts/(\d+)">\s*Undo', html) == [str(history[2].pk)]


def test_an_act_outlives_its_topic(looker: Client, history: list[Act], shop: Shop) -> None:
    shop.billing.delete()
    assert numbers(looker.get("/acts")) == [act.pk for act in reversed(history)]
