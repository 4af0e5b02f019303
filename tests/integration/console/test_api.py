"""`/api/v1`: who may call it, its answers, and its errors as problem documents."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError
from django.test import Client

from broker.acts import requests as acts
from broker.acts.requests import KINDS
from broker.conf import broker_settings
from broker.listening.connection_limits import ConnectionLimits
from broker.models import Topic
from console.api import rates
from console.api.urls import urlpatterns
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.shop import Shop

ORDERS = "persistent://public/default/orders"
CLEAR = {"kind": "clear", "topic": ORDERS, "subscription": "billing"}
READS = "/api/v1/topics/persistent/public/default/orders"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeActs:
    """A broker that answers from memory."""
    fake = FakeActs()
    for name in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


def post(client: Client, address: str, body: Any = None, **more: Any) -> Any:
    return client.post(address, json.dumps(body or {}), content_type="application/json", **more)


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture
def staff(db: None) -> dict[str, str]:
    """Headers of a staff user."""
    User.objects.create_user("root", password="tested-7", is_superuser=True)
    return basic("root", "tested-7")


def test_an_apply_allows_more_redelivered_messages_and_a_refusal_names_the_new_plan(
    operator: Client, broker: FakeActs
) -> None:
    body = {"kind": "reset", "topic": "orders", "subscription": "billing", "parameters": {"to": "earliest"}}
    post(operator, "/api/v1/acts", body)
    for wrong in ("5", 1.5, True):
        assert post(operator, "/api/v1/acts/1/apply", {"allowed_drift_messages": wrong}).status_code == 422
    broker.has_drifted = True
    refused = post(operator, "/api/v1/acts/1/apply", {"allowed_drift_messages": 0})
    assert broker.asked[-1][1][-1] == 0
    assert (refused.status_code, refused.json()["code"], refused.json()["retriable"]) == (
        409,
        "ActConflict",
        True,
    )
    assert (refused.json()["act"], refused.json()["new_plan"]) == (1, 2)
    assert operator.get("/api/v1/acts/1").json()["new_plan"] == 2
    broker.has_drifted = False
    assert post(operator, "/api/v1/acts/2/apply").status_code == 200


def test_an_act_is_planned_applied_and_undone(operator: Client, broker: FakeActs) -> None:
    planned = post(operator, "/api/v1/acts", {**CLEAR, "topic": "orders", "reason": "why"})
    assert (planned.status_code, planned["Location"]) == (201, "/api/v1/acts/1")
    assert planned.json()["plan"]["replayed_messages"] == 4
    assert broker.asked[0][1][:3] == ("clear", ORDERS, "billing")
    assert broker.asked[0][1][5].startswith("api ")
    applied = post(operator, "/api/v1/acts/1/apply", {"reason": "because"})
    assert (applied.status_code, applied.json()["state"]) == (200, "applied")
    assert operator.get("/api/v1/acts/1").json()["reason"] == "because"
    undo = post(operator, "/api/v1/acts/1/undo")
    assert (undo.status_code, undo["Location"], undo.json()["undo_of"]) == (201, "/api/v1/acts/2", 1)
    assert post(operator, "/api/v1/acts/1/undo", {"reason": "too early"}).json()["reason"] == "too early"


@pytest.mark.parametrize(
    "address", ["acts/-1", "nosuch", "", "topics/persistent/public/default/%00/subscriptions/s/peek"]
)
def test_an_invalid_address_is_a_problem_too(address: str, operator: Client) -> None:
    answer = operator.get(f"/api/v1/{address}")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["code"] == "NotFound"


@pytest.mark.parametrize(
    "address",
    ["nothing", "acts/abc", "", "topics/persistent/public/default/orders/subscriptions/g%2F1"],
)
def test_an_unknown_address_asks_for_credentials_as_a_known_one_does(
    address: str, anonymous: Client, staff: dict[str, str]
) -> None:
    refused = anonymous.get(f"/api/v1/{address}")
    known = anonymous.get("/api/v1/stats")
    assert (refused.status_code, refused.json()) == (401, known.json())
    assert refused["WWW-Authenticate"] == known["WWW-Authenticate"]
    answer = anonymous.get(f"/api/v1/{address}", headers=staff)
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["code"] == "NotFound"
    strict = Client(enforce_csrf_checks=True)
    assert post(strict, f"/api/v1/{address}", headers=staff).json()["code"] == "NotFound"


def test_an_act_that_no_broker_answers_is_202_and_has_an_address(operator: Client, broker: FakeActs) -> None:
    broker.answers = False
    answer = post(operator, "/api/v1/acts", CLEAR)
    assert (answer.status_code, answer["Location"], answer["Retry-After"]) == (202, "/api/v1/acts/1", "1")
    assert answer.json()["is_waiting"] is True
    broker.acts[1] = replace(broker.acts[1], state="applying", progress={"redriven_messages": 5})
    assert operator.get("/api/v1/acts/1").json()["progress"] == {"redriven_messages": 5}


@pytest.mark.parametrize(
    ("state", "code", "status", "retriable"),
    [
        ("refused", "ActConflict", 409, True),
        ("refused", "ConsumerBusy", 409, True),
        ("refused", "MetadataError", 422, False),
        ("refused", "NothingToActOn", 404, False),
        ("refused", "TopicNotFound", 404, False),
        ("failed", "UnknownError", 500, False),
        ("expired", "ActExpired", 503, True),
    ],
)
def test_a_refusal_is_a_problem_with_code_and_act(
    state: str, code: str, status: int, retriable: bool, operator: Client, broker: FakeActs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    post(operator, "/api/v1/acts", CLEAR)
    broken = replace(broker.acts[1], state=state, error="no, because", error_code=code)
    monkeypatch.setattr(acts, "apply", lambda *_, **__: broken)
    answer = post(operator, "/api/v1/acts/1/apply")
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert (answer.status_code, body["status"], body["code"], body["retriable"]) == (
        status, status, code, retriable,
    )  # fmt: skip
    assert (body["detail"], body["act"], body["instance"]) == ("no, because", 1, "/api/v1/acts/1")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "NotJson"),
        (b"[1]", 400, "NotJson"),
        (b"[" * 100_000, 400, "NotJson"),
        (b"\xff", 400, "NotJson"),
        (b"{}", 422, "InvalidParameters"),
        (b'{"kind": 1, "topic": "a"}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a\\u0000", "subscription": "s"}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "\\ud800", "subscription": "s"}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a", "subscription": "\\ud800"}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a", "subscription": "s", "reason": "\\ud800"}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a//b", "subscription": "s"}', 422, "InvalidTopicName"),
        (b'{"kind": "explode", "topic": "a", "subscription": "s"}', 422, "InvalidParameters"),
        (b'{"kind": "undo", "topic": "a", "subscription": "s"}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a"}', 422, "InvalidParameters"),
        (b'{"kind": "delete_bookmark", "topic": "a", "subscription": "s", "parameters": {"name": "n"}}', 422,
         "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a", "subscription": "s", "force": 1}', 422, "InvalidParameters"),
        (b'{"kind": "clear", "topic": "a", "subscription": "s", "parameters": []}', 422, "InvalidParameters"),
        (b'{"kind": "skip", "topic": "a", "subscription": "s", "parameters": {"messages": 0}}', 422,
         "InvalidParameters"),
        (b" " * 3_000_000, 413, "TooLarge"),
    ],
)  # fmt: skip
def test_a_bad_request_names_its_fault(body: bytes, status: int, code: str, operator: Client) -> None:
    answer = operator.post("/api/v1/acts", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.json()
    assert answer.json()["retriable"] is False


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("acts", "unknown member 'force'; this takes kind, topic, subscription, parameters, reason"),
        ("acts/1/apply", "unknown member 'force'; this takes reason, allowed_drift_messages"),
        ("acts/1/undo", "unknown member 'force'; this takes reason"),
    ],
)
def test_a_member_that_is_not_taken_is_named_with_those_that_are(
    address: str, says: str, operator: Client
) -> None:
    body = {"force": 1, **(CLEAR if address == "acts" else {})}
    assert post(operator, f"/api/v1/{address}", body).json()["detail"] == says


def test_callers_need_a_login_and_a_role_and_changes_must_be_json(
    operator: Client, looker: Client, anonymous: Client, staff: dict[str, str], broker: FakeActs, shop: Shop
) -> None:
    assert (
        anonymous.get("/api/v1/acts").status_code,
        post(anonymous, "/api/v1/acts", CLEAR).status_code,
    ) == (
        401,
        401,
    )
    assert anonymous.get("/api/v1/acts")["WWW-Authenticate"].startswith("Basic")
    assert looker.get("/api/v1/acts").status_code == 200
    for address in ("/api/v1/acts", "/api/v1/acts/1/apply", "/api/v1/acts/1/undo"):
        assert post(looker, address, CLEAR).status_code == 403
    assert looker.get(f"{READS}/subscriptions/billing/peek").status_code == 403
    assert post(anonymous, "/api/v1/acts", CLEAR, headers=staff).status_code == 201
    for wrong in (
        basic("root", "x"),
        basic("nobody", "x"),
        {"authorization": "Bearer x"},
        {"authorization": "Basic %"},
    ):
        assert post(anonymous, "/api/v1/acts", CLEAR, headers=wrong).status_code == 401
    assert operator.delete("/api/v1/acts/1").status_code == 405
    assert operator.delete("/api/v1/acts/1")["Allow"] == "GET, HEAD"


def test_a_page_of_another_site_cannot_act_for_a_logged_in_user(
    operator: Client, staff: dict[str, str], broker: FakeActs
) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    answer = post(strict, "/api/v1/acts", CLEAR)
    assert (answer.status_code, answer.json()["code"]) == (403, "CsrfFailed")
    # A form on another site could send the browser's remembered credentials, but no body of type application/json.
    form = strict.post("/api/v1/acts", json.dumps(CLEAR), content_type="text/plain", headers=staff)
    assert form.status_code == 415
    assert not broker.asked
    assert post(Client(enforce_csrf_checks=True), "/api/v1/acts", CLEAR, headers=staff).status_code == 201
    strict.get("/acts/9")
    token = strict.get("/acts").cookies["csrftoken"].value
    assert post(strict, "/api/v1/acts", CLEAR, headers={"x-csrftoken": token}).status_code == 201


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OperationalError("connection refused"), 503, "PersistenceError"),
        (psycopg.InterfaceError("the connection is closed"), 503, "PersistenceError"),
        (IntegrityError("a key exists"), 500, "InternalError"),
        (psycopg.errors.UniqueViolation("a key exists"), 500, "InternalError"),
        (psycopg.errors.QueryCanceled("it took too long"), 500, "InternalError"),
    ],
)
def test_only_a_database_that_did_not_answer_is_worth_another_try(
    error: Exception, status: int, code: str, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(act_id: int) -> None:
        raise error

    monkeypatch.setattr(acts, "get", fails)
    answer = operator.get("/api/v1/acts/1")
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["retriable"]) == (status, code, status == 503)


def test_the_act_log_is_read_page_by_page(operator: Client, shop: Shop, broker: FakeActs) -> None:
    answer = operator.get("/api/v1/acts?kind=clear&q=x").json()
    assert answer == {"acts": [], "next_before": None}
    assert operator.get("/api/v1/acts?before=x").status_code == 400
    assert operator.get("/api/v1/acts/99").json()["code"] in ("ActNotFound", "InvalidParameters")


def test_peek_examine_and_backlog_answer_from_stored_messages(operator: Client, shop: Shop) -> None:
    peeked = operator.get(f"{READS}/subscriptions/billing/peek?limit=2").json()["messages"]
    assert len(peeked) == 2
    first = operator.get(f"{READS}/examine").json()
    last = operator.get(f"{READS}/examine?from=latest").json()
    assert (first["ledger_id"], first["entry_id"]) < (last["ledger_id"], last["entry_id"])
    whole = operator.get(f"{READS}/subscriptions/billing/backlog").json()
    assert whole["is_whole"]
    assert whole["entries"] > 2
    assert whole["messages"] >= whole["entries"]
    part = operator.get(f"{READS}/subscriptions/billing/backlog?entries=1").json()
    assert (part["entries"], part["is_whole"], part["stopped_by"]) == (1, False, "entries")


def test_a_partitioned_topic_says_where_its_messages_are(operator: Client, shop: Shop) -> None:
    parted = "persistent://public/default/parted"
    Topic.objects.create(namespace=shop.topic.namespace, name=parted, partitions=2)
    answer = operator.get("/api/v1/topics/persistent/public/default/parted/examine")
    name = f"{parted}-partition-0"
    assert (answer.status_code, f"is partitioned, and each partition has its own messages: name {name}"
            in answer.json()["detail"]) == (404, True)  # fmt: skip


@pytest.mark.parametrize(
    ("address", "status"),
    [
        (f"{READS}/examine?position=0", 400),
        (f"{READS}/examine?from=middle", 400),
        (f"{READS}/examine?position=1000000", 404),
        (f"{READS}-not/examine", 404),
        (f"{READS}/subscriptions/nope/peek", 404),
        (f"{READS}/subscriptions/billing/peek?limit=101", 400),
        (f"{READS}/subscriptions/billing/peek?limit=٣", 400),
        (f"{READS}/subscriptions/billing/backlog?entries=10001", 400),
    ],
)
def test_an_invalid_read_is_refused_with_its_status(
    address: str, status: int, operator: Client, shop: Shop
) -> None:
    answer = operator.get(address)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")


def test_the_description_names_every_kind_and_every_address(anonymous: Client) -> None:
    document = anonymous.get("/api/v1/openapi.json").json()
    kinds = {
        each["properties"]["kind"]["const"] for each in document["components"]["schemas"]["NewAct"]["oneOf"]
    }
    assert kinds == {name for name, kind in KINDS.items() if kind.can_be_requested}
    assert {"/acts", "/acts/{act_id}", "/acts/{act_id}/apply", "/acts/{act_id}/undo"} <= document[
        "paths"
    ].keys()
    described_nowhere = 2  # the description itself, and the view for all other addresses
    assert len(document["paths"]) == len({str(each.pattern) for each in urlpatterns}) - described_nowhere


def test_a_user_who_calls_too_often_is_refused_and_others_are_not(
    client: Client, shop: Shop, staff: dict[str, str], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(broker_settings(), http_request_rate_per_role=2)
    limits = ConnectionLimits(settings)
    monkeypatch.setattr(rates, "_rates", lambda: limits.rates)
    answers = [client.get(READS, headers=staff) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json()["code"] == "TooManyRequests"
    assert "VELA_HTTP_REQUEST_RATE_PER_ROLE" in answers[2].json()["detail"]
    assert answers[2]["Retry-After"] == "1"
    assert operator.get(READS).status_code == 200
