"""The pipeline's pages: forms that become acts, runs with their progress, and who may use them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from broker.acts import requests as acts
from broker.models import Heartbeat, InsightHour, PipelineRun, PipelineSchedule
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop

FORM = "/pipeline/jobs/export"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeActs:
    fake = FakeActs()

    def plan(kind: str, *, subscription: str = "", **given: Any) -> acts.ActView:
        return fake.plan(kind, subscription=subscription, **given)

    monkeypatch.setattr(acts, "plan", plan)
    monkeypatch.setattr(acts, "get", fake.get)
    return fake


def a_run(shop: Shop, **given: Any) -> PipelineRun:
    return PipelineRun.objects.create(
        **{
            "job": "export",
            "subject": f"{shop.topic.name} → x",
            "topic_name": shop.topic.name,
            "options": {"to": "x", "format": "csv", "starting_time": ""},
            "state": "running",
            "stages": [
                {"name": "start Spark", "done": None, "of": None, "began_ms": 1_760_000_000_000},
                {"name": "write files", "done": 3, "of": 16, "began_ms": 1_760_000_000_000},
            ],
            "who": "ada",
            "log": "one\x1b[31m line\n",
            **given,
        }
    )


def test_a_viewer_sees_runs_and_starts_none(looker: Client, anonymous: Client, shop: Shop) -> None:
    a_run(shop, id=1)
    assert looker.get(FORM).status_code == 403
    for address in ("/pipeline", "/pipeline/runs/1"):
        page = looker.get(address)
        assert FORM not in page.content.decode()
        assert "Cancel…" not in text_of(page)
        assert anonymous.get(address)["Location"].startswith("/login")


def test_only_readers_of_payloads_see_messages_of_a_run(looker: Client, operator: Client, shop: Shop) -> None:
    sample = {"id": "1:0", "key": "customer-7", "text": "a pear", "size_bytes": 6}
    a_run(shop, id=1, state="done", log="fits: a pear", result={"messages": 1, "samples": [sample]})
    for address in ("/pipeline/runs/1", "/api/v1/pipeline/runs/1"):
        assert "a pear" in operator.get(address).content.decode()
        hidden = looker.get(address)
        assert hidden.status_code == 200
        assert "a pear" not in hidden.content.decode()
        assert "customer-7" not in hidden.content.decode()


def test_the_page_lists_jobs_runs_and_schedules(operator: Client, shop: Shop) -> None:
    page = text_of(operator.get("/pipeline"))
    assert "No worker is looking for jobs" in page
    assert "No job has run yet" in page
    Heartbeat.objects.create(name="pipeline", at=datetime.now(UTC))
    a_run(shop)
    a_run(shop, state="failed", error="Spark needs Java 17", ended_at=datetime.now(UTC))
    PipelineSchedule.objects.create(
        job="export",
        subject="s",
        topic_name=shop.topic.name,
        options={},
        every_minutes=1500,
        next_at=datetime.now(UTC) + timedelta(minutes=5),
        who="ada",
    )
    page = text_of(operator.get("/pipeline"))
    assert "No worker" not in page
    for words in ("write files: 3 of 16", "Spark needs Java 17", "1 500 min", "orders → x"):
        assert words in page, words
    assert "3 of 16" not in text_of(operator.get("/pipeline?state=failed"))
    assert "No run matches" in text_of(operator.get("/pipeline?job=nothing"))


def test_the_api_refuses_a_job_that_does_not_exist(operator: Client, shop: Shop) -> None:
    a_run(shop)
    assert len(operator.get("/api/v1/pipeline/runs?job=export").json()["runs"]) == 1
    refused = operator.get("/api/v1/pipeline/runs?job=nosuch")
    assert (refused.status_code, refused.json()["code"]) == (400, "BadQuery")
    assert "there is no job 'nosuch': the jobs are export, import," in refused.json()["detail"]


def test_a_topic_leads_to_its_jobs(operator: Client, looker: Client, shop: Shop) -> None:
    a_run(shop)
    a_run(shop, topic_name="persistent://public/default/other", subject="other")
    topic = "/t/persistent/public/default/orders"
    html = operator.get(topic).content.decode()
    address = html.partition('href="/pipeline?')[2].partition('"')[0].replace("&amp;", "&")
    jobs = " ".join(operator.get(f"/pipeline?{address}").content.decode().split())
    assert jobs.count("data-row") == 1
    assert f'name="of" value="{shop.topic.name}"' in jobs, "the page says that it lists one topic's runs only"
    assert "/pipeline/jobs/replay?topic=persistent%3A%2F%2Fpublic%2Fdefault%2Forders" in jobs
    assert "/pipeline?" not in looker.get(topic).content.decode()


def test_runs_are_paged(operator: Client, shop: Shop) -> None:
    for number in range(60):
        a_run(shop, state="done", subject=str(number))
    html = operator.get("/pipeline").content.decode()
    assert html.count("data-row") == 50
    before = html.partition("before=")[2].partition('"')[0]
    older = operator.get(f"/pipeline?before={before}").content.decode()
    assert (older.count("data-row"), "Newest" in older) == (10, True)
    filtered = operator.get(f"/pipeline?state=done&job=export&before={before}").content.decode()
    newest = re.search(r'href="([^"]*)">Newest', filtered)
    assert newest is not None
    assert {"state=done", "job=export"} < set(unescape(newest[1]).lstrip("?").split("&"))


def test_the_form_becomes_an_act(operator: Client, shop: Shop, broker: FakeActs) -> None:
    given = {"topic": "orders", "option_to": "x", "option_format": "ndjson"}
    html = " ".join(operator.get(FORM, given).content.decode().split())
    assert ('value="orders"' in html, '<option value="ndjson" selected>' in html) == (True, True)

    response = operator.post(FORM, given)

    assert response["Location"] == "/acts/1"
    (asked,) = broker.asked
    options = {"to": "x", "format": "ndjson"}
    assert asked[1][:4] == ("run_job", shop.topic.name, "", {"job": "export", "options": options})
    operator.post(FORM, given | {"every_minutes": "60"})
    assert broker.asked[1][1][0] == "schedule_job"
    assert broker.asked[1][1][3]["every_minutes"] == 60


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"option_to": "x"}, "Name the topic."),
        ({"topic": "orders"}, "Option to is missing"),
        ({"topic": "orders", "option_to": "../x"}, "without .. and without /"),
        ({"topic": "a/b", "option_to": "x"}, "is not a topic name"),
        ({"topic": "orders", "option_to": "x", "option_starting_time": "noon"}, "It must be a time"),
        ({"topic": "orders", "option_to": "x", "every_minutes": "0"}, "At least 1 minute."),
        ({"topic": "orders", "option_to": "x", "every_minutes": "99999"}, "At most 31 days."),
    ],
)
def test_an_invalid_form_requests_no_act(
    given: dict[str, str], says: str, operator: Client, shop: Shop, broker: FakeActs
) -> None:
    response = operator.post(FORM, given)
    assert (response.status_code, broker.asked) == (422, [])
    assert says.lower() in text_of(response).replace("&#x27;", "'").lower()


def test_a_boolean_option_is_a_choice_of_true_and_false(operator: Client, shop: Shop) -> None:
    html = " ".join(operator.get("/pipeline/jobs/replay?option_preview=false").content.decode().split())
    assert '<option value="true" >true</option> <option value="false" selected>false</option>' in html


def test_a_refusal_is_shown(operator: Client, shop: Shop, broker: FakeActs) -> None:
    broker.refusal = "there is no topic orders"
    response = operator.post(FORM, {"topic": "orders", "option_to": "x"})
    assert (response.status_code, "There is no topic orders." in text_of(response)) == (409, True)
    run = a_run(shop)
    response = operator.post(f"/pipeline/runs/{run.pk}/cancel")
    assert (response.status_code, "There is no topic orders." in text_of(response)) == (409, True)


def test_a_run_shows_how_far_it_is(operator: Client, shop: Shop, broker: FakeActs) -> None:
    run = a_run(shop)
    response = operator.get(f"/pipeline/runs/{run.pk}")
    page = text_of(response)
    for words in ("3 of 16", "write files", "Cancel…"):
        assert words in page, words
    assert "starting_time" not in page
    assert "\x1b" not in response.content.decode()
    assert operator.post(f"/pipeline/runs/{run.pk}/cancel")["Location"] == "/acts/1"
    assert broker.asked[0][1][:4] == ("cancel_job", shop.topic.name, "", {"run": run.pk})
    assert operator.get(f"/pipeline/runs/{run.pk}/cancel")["Location"] == f"/pipeline/runs/{run.pk}"
    assert operator.post(f"/pipeline/runs/{run.pk}/explode").status_code == 404


def test_a_run_that_ended_says_why_and_can_go_on(operator: Client, shop: Shop, broker: FakeActs) -> None:
    run = a_run(shop, state="failed", error="the topic was deleted", ended_at=datetime.now(UTC))
    page = text_of(operator.get(f"/pipeline/runs/{run.pk}"))
    assert ("the topic was deleted" in page, "Continue…" in page, "Cancel…" in page) == (True, True, False)
    operator.post(f"/pipeline/runs/{run.pk}/continue")
    assert broker.asked[0][1][0] == "continue_job"
    stopped = a_run(
        shop, state="cancelled", cancelled_by="ada", error="cancelled by ada", ended_at=datetime.now(UTC)
    )
    page = text_of(operator.get(f"/pipeline/runs/{stopped.pk}"))
    assert ("Cancelled by ada." in page, page.lower().count("cancelled by")) == (True, 1)
    part = operator.get(f"/pipeline/runs/{run.pk}?part=run")
    assert part["HX-Refresh"] == "true"
    done = a_run(shop, state="done", result={"words": "5 messages"}, ended_at=datetime.now(UTC))
    page = text_of(operator.get(f"/pipeline/runs/{done.pk}"))
    assert ("5 messages" in page, "Continue…" in page) == (True, False)
    assert operator.get("/pipeline/runs/99999999999999999999").status_code == 404


def test_a_preview_shows_messages_and_leads_to_the_replay(operator: Client, shop: Shop) -> None:
    sample = {"id": "1:2", "batch_index": -1, "key": None, "text": "<b>\x1b[0m", "size_bytes": 12}
    run = a_run(
        shop,
        job="replay",
        state="done",
        options={"to": "other", "where": "size > 1", "preview": "true"},
        result={"words": "3 messages fit", "is_preview": True, "messages": 3, "samples": [sample]},
        ended_at=datetime.now(UTC),
    )
    response = operator.get(f"/pipeline/runs/{run.pk}")
    html = response.content.decode()
    assert ("&lt;b&gt;" in html, "\x1b" in html, "Publish them…" in html) == (True, False, True)
    assert "option_preview=false" in html
    assert "option_where=size+%3E+1" in html


def test_a_schedule_is_deleted_by_an_act(operator: Client, shop: Shop, broker: FakeActs) -> None:
    schedule = PipelineSchedule.objects.create(
        job="export",
        subject="s",
        topic_name=shop.topic.name,
        options={},
        every_minutes=5,
        next_at=datetime.now(UTC),
        who="ada",
    )
    assert operator.post(f"/pipeline/schedules/{schedule.pk}/delete")["Location"] == "/acts/1"
    assert broker.asked[0][1][:4] == ("unschedule_job", shop.topic.name, "", {"schedule": schedule.pk})
    assert operator.post("/pipeline/schedules/99/delete").status_code == 404


def test_insights_of_a_topic_are_charts_and_a_table_of_hours(
    operator: Client, looker: Client, shop: Shop
) -> None:
    address = "/t/persistent/public/default/orders?tab=insights"
    assert "No hour of the last two days was computed" in text_of(operator.get(address))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    InsightHour.objects.create(
        topic_id=shop.topic.pk,
        hour_ms=now_ms - now_ms % 3_600_000,
        messages=12_345,
        size_bytes=1_000_000,
        size_p50=80,
        size_p95=90,
        size_p99=99,
        size_most=5000,
        keyed_messages=200,
        keys=7,
        top_keys=[{"key": "hot\u202ekey", "messages": 50, "bytes": 900}],
        letters=[{"topic": "persistent://public/default/source", "subscription": None, "messages": 3}],
        subscriptions=[
            {
                "name": "billing",
                "acked": 5,
                "redelivered": 2,
                "out": 7,
                "ack_p50_ms": 40,
                "ack_p95_ms": 1500,
                "ack_p99_ms": None,
            }
        ],
        poison=[{"subscription": "billing", "id": "3:4", "count": 9}],
        computed_at=datetime.now(UTC),
    )
    response = operator.get(address)
    page = text_of(response)
    for words in (
        "12 345",
        "25 %",
        "– ms",
        "40 ms",
        "1.5 s",
        "default/source",
        "3:4",
        "Delivered again and again",
    ):
        assert words in page, words
    assert "\u202e" not in response.content.decode()
    assert 'class="insight-bars"' in response.content.decode()
    seen = text_of(looker.get(address))
    assert ("You may not see keys" in seen, "hot" in seen, "Compute…" in seen) == (True, False, False)
    assert "default/source" not in seen, "properties name the source, and a viewer does not read properties"
    InsightHour.objects.update(hour_ms=F("hour_ms") - 3_600_000)
    InsightHour.objects.create(
        topic_id=shop.topic.pk,
        hour_ms=now_ms - now_ms % 3_600_000,
        messages=1,
        size_bytes=1,
        keyed_messages=0,
        keys=0,
        top_keys=[],
        letters=[],
        subscriptions=[],  # unknown until the hour is over
        poison=[],
        computed_at=datetime.now(UTC),
    )
    page = text_of(operator.get(address))
    assert ("40 ms" in page, "hot" in page) == (True, False)


def test_one_hour_without_numbers_is_counted_as_one(operator: Client, shop: Shop) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    InsightHour.objects.bulk_create(
        InsightHour(
            topic_id=shop.topic.pk,
            hour_ms=now_ms - now_ms % 3_600_000 - hours * 3_600_000,
            messages=1,
            size_bytes=1,
            keyed_messages=0,
            keys=0,
            top_keys=[],
            letters=[],
            subscriptions=[],
            poison=[],
            computed_at=datetime.now(UTC),
        )
        for hours in range(47)
    )
    html = operator.get("/t/persistent/public/default/orders?tab=insights").content.decode()
    assert "1 hour has no numbers." in html
