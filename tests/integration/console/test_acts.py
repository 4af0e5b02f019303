"""The act log and a subscription's recent acts."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.models import Act
from console.access import Role
from console.act_log import export
from console.queries.acts import LOG_ROWS, ActsAsked, act_log, acts_of
from console.queries.rights import EVERYTHING
from console.words.acts import KINDS
from tests.integration.console.conftest import person
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
    """Three acts, of which the last one can be undone."""
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
def test_filters_choose_acts(query: str, which: list[int], looker: Client, history: list[Act]) -> None:
    assert numbers(looker.get(f"/acts{query}")) == [history[number].pk for number in which]


def test_newest_keeps_the_filters(looker: Client, history: list[Act]) -> None:
    html = looker.get(f"/acts?q=vera&state=refused&before={history[2].pk}").content.decode()
    address = html.rpartition("Newest</a>")[0].rpartition('href="')[2].partition('"')[0]
    assert numbers(looker.get(f"/acts{unescape(address)}")) == [history[0].pk]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?kind=rewind", "There is no kind of act named “rewind”."),
        ("?state=done", "There is no act state named “done”."),
        ("?kind=clear&state=applied", "No act matches this filter."),
        ("?before=1", "No act matches this filter."),
    ],
)
def test_an_empty_list_says_why(query: str, sentence: str, looker: Client, history: list[Act]) -> None:
    words = text_of(looker.get(f"/acts{query}"))
    sentences = ("There is no kind of act", "There is no act state", "No act matches")
    assert sentence in words
    assert [each for each in sentences if each in words] == [
        each for each in sentences if sentence.startswith(each)
    ]


def test_a_row_says_who_did_what_with_which_effect(looker: Client, history: list[Act]) -> None:
    words = text_of(looker.get("/acts"))
    assert "reset to the beginning billing orders" in words
    assert "12 0 ada console 10.0.0.1" in words
    assert "refused Plan again." in words


def test_a_refused_row_names_the_message_as_the_pages_do(looker: Client, shop: Shop) -> None:
    asked, error = {"id": "45:0:-1:5"}, "45:0:-1:5 is already acknowledged"
    an_act(shop, kind="skip_one", state="refused", parameters=asked, result=None, error=error)
    assert "refused 45:0:5 is already acknowledged." in text_of(looker.get("/acts"))


def test_the_log_says_what_can_be_undone_as_the_subscriptions_page_does(history: list[Act]) -> None:
    logged, _ = act_log(ActsAsked(), EVERYTHING)
    subscription_id = history[2].subscription_id
    assert subscription_id is not None
    assert [row.undoable for row in logged] == [True, False, False]
    assert [row.undoable for row in acts_of(subscription_id)] == [True, False, False]


def test_an_act_that_was_undone_names_the_act_that_undid_it(
    looker: Client, history: list[Act], shop: Shop
) -> None:
    done = history[2]
    an_act(shop, kind="undo", parameters={}, undo_of=done, state="refused")
    logged, _ = act_log(ActsAsked(), EVERYTHING)
    assert (logged[1].undoable, logged[1].undone_by_id) == (True, None)
    undo = an_act(shop, kind="undo", parameters={}, undo_of=done, undo_until=now() + timedelta(hours=1))
    logged, _ = act_log(ActsAsked(), EVERYTHING)
    assert [(row.undoable, row.undone_by_id) for row in logged[:3]] == [
        (True, None),
        (False, None),
        (False, undo.pk),
    ]
    assert done.subscription_id is not None
    assert acts_of(done.subscription_id)[2].undone_by_id == undo.pk
    assert f"undone by {undo.pk}" in text_of(looker.get("/acts"))


def test_pages_of_acts_follow_each_other(looker: Client, shop: Shop) -> None:
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


def exported(client: Client, query: str, address: str = "/acts/export") -> list[dict[str, Any]]:
    response = client.get(f"{address}?{query}")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/x-ndjson"
    assert response["Content-Disposition"] == 'attachment; filename="acts.ndjson"'
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("address", ["/acts/export", "/api/v1/acts/export"])
@pytest.mark.parametrize(
    ("query", "which"), [("", [2, 1, 0]), ("kind=skip", [2]), ("state=refused", [0]), ("q=vera", [0])]
)
def test_the_export_has_what_the_page_finds(
    query: str, which: list[int], address: str, looker: Client, history: list[Act]
) -> None:
    *lines, end = exported(looker, query, address)
    assert [line["act"] for line in lines] == [history[number].pk for number in which]
    assert end == {"end": {"stopped_by": "end", "acts": len(which), "before": None}}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_the_log_can_be_looked_for(kind: str, looker: Client, shop: Shop) -> None:
    act = an_act(shop, kind=kind)
    answer = looker.get(f"/api/v1/acts?kind={kind}")
    assert answer.status_code == 200, answer.content
    assert [each["id"] for each in answer.json()["acts"]] == [act.pk]


def test_a_line_of_the_export_says_everything(looker: Client, shop: Shop) -> None:
    act = an_act(
        shop,
        plan={"replayed_messages": 11, "skipped_messages": 0, "notes": ["x"], "pinned": {"to": "1:2"}},
        result={"replayed_messages": 12, "skipped_messages": 0, "is_sure": True},
        reason="deploy 7",
        finished_at=datetime(2026, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2))),
    )
    undo = an_act(shop, kind="undo", parameters={}, undo_of=act, finished_at=None)
    Act.objects.filter(pk=act.pk).update(created_at=datetime(2026, 3, 1, 12, 29, 59, 500_000, tzinfo=UTC))
    line = exported(looker, f"before={undo.pk}")[0]
    assert tuple(line) == export.COLUMNS
    assert line == {
        "act": act.pk,
        "created_at": "2026-03-01T12:29:59.500Z",
        "finished_at": "2026-03-01T12:30:00.000Z",
        "kind": "reset",
        "state": "applied",
        "planned_by": "ada",
        "who": "ada",
        "role": "operator",
        "origin": "console 10.0.0.1",
        "topic": shop.topic.name,
        "subscription": "billing",
        "parameters": {"to": "earliest"},
        "reason": "deploy 7",
        "planned_replayed_messages": 11,
        "planned_skipped_messages": 0,
        "replayed_messages": 12,
        "skipped_messages": 0,
        "plan": {"replayed_messages": 11, "skipped_messages": 0},
        "result": {"replayed_messages": 12, "skipped_messages": 0},
        "error": "",
        "undo_of": None,
        "undone_by": undo.pk,
    }


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("delete_topic", "admin"),
        ("set_password", "admin"),
        ("remove_second_factor", "admin"),
        ("add_second_factor", ""),
        ("renew_recovery_codes", ""),
        ("create_token", "admin"),
        ("revoke_token", "admin"),
        ("undo", "operator"),
        ("seek", ""),
        ("trim", ""),
        ("set_permissions", ""),
    ],
)
def test_the_export_says_which_role_an_act_takes(kind: str, role: str, looker: Client, shop: Shop) -> None:
    an_act(shop, kind=kind)
    assert exported(looker, "")[0]["role"] == role


@pytest.mark.parametrize("kind", ["set_password", "remove_second_factor"])
def test_what_users_do_for_themselves_takes_no_role(kind: str, looker: Client, shop: Shop) -> None:
    an_act(shop, kind=kind, who="bob", parameters={"user": "bob"})
    assert exported(looker, "")[0]["role"] == ""


def test_the_export_as_csv_runs_no_formula(looker: Client, shop: Shop) -> None:
    an_act(shop, who="=cmd()", reason='+1, "two"\nlines', parameters={"id": "@x"}, subscription_name="-s")
    response = looker.get("/acts/export?format=csv")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    heading, row, end = csv.reader(io.StringIO(text, newline=""))
    cells = dict(zip(heading, row, strict=True))
    assert (cells["who"], cells["reason"], cells["subscription"]) == ("'=cmd()", '\'+1, "two"\nlines', "'-s")
    assert (cells["parameters"], cells["plan"]) == ('{"id": "@x"}', "")
    assert end == ["# stopped_by end, acts 1, before None"]


def test_the_export_reads_page_by_page_and_stops_at_its_size(
    looker: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE_ACTS", 2)
    made = [an_act(shop).pk for _ in range(5)]
    *lines, _ = exported(looker, "")
    assert [line["act"] for line in lines] == made[::-1]
    monkeypatch.setattr(export, "MOST_WRITTEN_BYTES", 700)
    *lines, end = exported(looker, "")
    assert 0 < len(lines) < 5
    assert end["end"] == {"stopped_by": "size", "acts": len(lines), "before": lines[-1]["act"]}
    following = exported(looker, f"before={end['end']['before']}")[0]
    assert following["act"] == lines[-1]["act"] - 1


def test_the_export_has_only_acts_that_its_user_may_see(history: list[Act]) -> None:
    greta = person("greta", {"garden/*": Role.OPERATOR})
    for address in ("/acts/export", "/api/v1/acts/export"):
        assert exported(greta, "", address) == [{"end": {"stopped_by": "end", "acts": 0, "before": None}}]


def test_at_most_two_exports_of_acts_and_messages_run_at_once(looker: Client, history: list[Act]) -> None:
    sent = [looker.get("/acts/export"), looker.get("/api/v1/acts/export")]
    for address in (
        "/acts/export",
        "/api/v1/acts/export",
        "/t/persistent/public/default/orders/messages/export",
    ):
        refused = looker.get(address)
        assert (refused.status_code, refused["Retry-After"]) == (503, "10"), address
    for response in sent:
        b"".join(response.streaming_content)  # type: ignore[attr-defined]
    assert len(exported(looker, "")) == 4
