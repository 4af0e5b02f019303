"""An operator of one namespace cannot publish to another, by pages, by the API, or by a topic named in an act."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from broker.acts import requests as acts
from broker.models.pipeline import PipelineRun, PipelineSchedule
from console.access import Role
from tests.integration.console.conftest import person
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop, make_topic
from tests.support.plans import a_plan

HOME = "public/default"
OTHER = "persistent://other/place/pears"
PAGE = f"/t/persistent/{HOME}/orders"
FORM = f"{PAGE}/s/billing/act"
ACTS = "/api/v1/acts"
NEEDS = "You need the operator role for other/place."

REPLAY = {"job": "replay", "options": {"to": OTHER}}
NAMING_ANOTHER: dict[str, tuple[str, Mapping[str, Any]]] = {
    "redrive": ("billing", {"to_topic": OTHER}),
    "send_to_dead_letters": ("billing", {"id": "1:0", "to_topic": OTHER}),
    "run_job": ("", REPLAY),
    "schedule_job": ("", {**REPLAY, "every_minutes": 5}),
    "continue_job": ("", {"run": 1}),
}
"""The acts that publish to another topic, which is in another namespace here."""


@pytest.fixture
def broker(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> FakeActs:
    """A broker that plans and applies everything, and a failed run that replayed to the other namespace."""
    make_topic(OTHER)
    PipelineRun.objects.create(
        id=1,
        state="failed",
        job="replay",
        subject=ORDERS,
        topic_name=ORDERS,
        options={"to": OTHER, "where": ""},
        who="ada",
    )
    fake = FakeActs()
    for name in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


@pytest.fixture
def pia(db: None) -> Client:
    """Pia is an operator of one namespace and a reader of the other."""
    return person("pia", {HOME: Role.OPERATOR, "other/*": Role.READER})


@pytest.fixture
def greta(db: None) -> Client:
    """Greta is an operator of both namespaces."""
    return person("greta", {HOME: Role.OPERATOR, "other/*": Role.OPERATOR})


def planned(who: Client, kind: str, topic: str = ORDERS) -> tuple[int, dict[str, Any]]:
    """Ask `/api/v1` for a plan."""
    subscription, parameters = NAMING_ANOTHER.get(kind, ("", {}))
    body = {"kind": kind, "topic": topic, "subscription": subscription, "parameters": parameters}
    answer = who.post(ACTS, body, content_type="application/json")
    return answer.status_code, answer.json()


def test_every_act_that_names_another_topic_needs_rights_there() -> None:
    """If an act gets a parameter that names another topic, the list above must contain this act."""
    named = {
        kind
        for kind, _, _, schema in acts.described_kinds()
        if {"to_topic", "job", "run"} & set(schema["properties"])
    }
    assert named - {"cancel_job"} == set(NAMING_ANOTHER)


@pytest.mark.parametrize("kind", NAMING_ANOTHER)
def test_the_api_plans_nothing_into_another_namespace(
    kind: str, broker: FakeActs, pia: Client, greta: Client
) -> None:
    status, problem = planned(pia, kind)
    assert (status, problem["detail"]) == (403, NEEDS)
    stranger = person("otis", {HOME: Role.OPERATOR})
    assert planned(stranger, kind)[0] == 404, "a user who may not see the namespace learns nothing about it"
    assert broker.asked == []
    assert planned(greta, kind)[0] == 201


@pytest.mark.parametrize(
    ("address", "given"),
    [
        (f"{FORM}/redrive", {"to_topic": OTHER, "most": "10", "rate": "0", "max_redrives": "3"}),
        (f"{FORM}/send_to_dead_letters", {"id": "1:0", "to_topic": OTHER}),
        (f"{PAGE}/m/SPOT/again", {"how": "as-is", "to_topic": OTHER}),
        ("/pipeline/jobs/replay", {"topic": ORDERS, "option_to": OTHER}),
        ("/pipeline/jobs/replay", {"topic": ORDERS, "option_to": OTHER, "every_minutes": "5"}),
        ("/pipeline/jobs/import", {"topic": OTHER, "option_from": "x"}),
        ("/pipeline/runs/1/continue", {}),
    ],
)
def test_pages_plan_nothing_into_another_namespace(
    address: str, given: dict[str, str], broker: FakeActs, pia: Client, greta: Client, shop: Shop
) -> None:
    address = address.replace("SPOT", f"{shop.sealed.pk}:5")
    refused = pia.post(address, given)
    assert (refused.status_code, NEEDS in text_of(refused)) == (403, True)
    assert broker.asked == []
    allowed = greta.post(address, given)
    assert allowed.status_code == 302, text_of(allowed)


@pytest.mark.parametrize(
    "address",
    [
        "act/publish",
        "act/bookmark",
        "act/delete-bookmark",
        "act/compact",
        "act/subscription",
        "act/delete",
        "policies",
        "choose/reset",
    ],
)
def test_forms_of_a_topic_in_another_namespace_are_closed(
    address: str, broker: FakeActs, pia: Client, shop: Shop
) -> None:
    form = f"/t/persistent/other/place/pears/{address}"
    for method in (pia.get, pia.post):
        assert method(form).status_code in (403, 405)
    assert broker.asked == []


def test_a_topic_is_made_in_no_other_namespace(broker: FakeActs, pia: Client) -> None:
    assert "other/place" not in pia.get("/topics/new").content.decode()
    given = {"namespace": "other/place", "name": "plums", "partitions": "0"}
    assert pia.post("/topics/new", given).status_code == 422
    body = {"kind": "create_topic", "topic": "other/place", "parameters": {"name": "plums"}}
    assert pia.post(ACTS, body, content_type="application/json").status_code == 403
    assert broker.asked == []


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("send_to_dead_letters", {"letter_topic": OTHER}),
        ("send_to_dead_letters", {"partitions": [{"partition": 0, "letter_topic": OTHER}]}),
        ("redrive", {"targets": {ORDERS: 2, OTHER: 1}}),
    ],
)
def test_a_plan_into_another_namespace_is_not_applied(
    kind: str, shown: dict[str, Any], broker: FakeActs, pia: Client, greta: Client
) -> None:
    """The broker chose the topic: a consumer names its dead-letter topic, and a letter names its original topic."""
    broker.next_plan = {**a_plan(), **shown}
    parameters = {"id": "1:0"} if kind == "send_to_dead_letters" else {}
    act = broker.plan(
        kind, topic=ORDERS, subscription="billing", parameters=parameters, who="ada", origin="x"
    ).id
    for answer in (
        pia.post(f"/acts/{act}/apply", {"confirm": "billing"}),
        pia.post(f"{ACTS}/{act}/apply", {}, content_type="application/json"),
    ):
        assert (answer.status_code, NEEDS in answer.content.decode()) == (403, True)
    assert "apply" not in [what for what, _ in broker.asked]
    assert greta.post(f"{ACTS}/{act}/apply", {}, content_type="application/json").status_code == 200


def test_an_act_without_a_plan_is_not_applied(broker: FakeActs, pia: Client) -> None:
    """The plan could arrive just after the rights were checked, and could name another namespace."""
    broker.answers = False
    act = broker.plan(
        "redrive", topic=ORDERS, subscription="billing", parameters={}, who="pia", origin="x"
    ).id
    for answer in (
        pia.post(f"/acts/{act}/apply", {"confirm": "billing"}),
        pia.post(f"{ACTS}/{act}/apply", {}, content_type="application/json"),
    ):
        assert answer.status_code == 409
        assert "only a planned act can be applied" in answer.content.decode()
    assert "apply" not in [what for what, _ in broker.asked]


def test_lists_of_the_pipeline_show_only_what_their_reader_may_see(broker: FakeActs, shop: Shop) -> None:
    of_other = {"job": "export", "subject": OTHER, "topic_name": OTHER, "options": {"to": "x"}, "who": "ada"}
    PipelineRun.objects.create(id=2, state="done", **of_other)
    PipelineSchedule.objects.create(id=2, every_minutes=5, next_at="2026-01-01T00:00:00Z", **of_other)
    for patterns, runs, schedules in (
        ({HOME: Role.VIEWER}, [1], []),
        ({"other/place": Role.VIEWER}, [2], [2]),
        ({"other/*": Role.VIEWER}, [2], [2]),
        ({"other/no-place": Role.VIEWER}, [], []),
        ({"*": Role.VIEWER}, [2, 1], [2]),
    ):
        who = person(json.dumps(list(patterns)), patterns)
        found = who.get("/api/v1/pipeline/runs").json()["runs"]
        assert [each["id"] for each in found] == runs
        found = who.get("/api/v1/pipeline/schedules").json()["schedules"]
        assert [each["id"] for each in found] == schedules
        page = who.get("/pipeline").content.decode()
        assert (OTHER in page) is (2 in runs)
        for run_id in (1, 2):
            for address in (f"/pipeline/runs/{run_id}", f"/api/v1/pipeline/runs/{run_id}"):
                assert who.get(address).status_code == (200 if run_id in runs else 404)
