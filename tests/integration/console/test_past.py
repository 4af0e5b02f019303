"""Pages about a moment in the past: they show what is stored, and say that the rest is unknown."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from broker.acts import requests as acts
from broker.models import (
    AlertFiring,
    StatsPoint10s,
    StatsPoint60s,
    StatsPoint3600s,
    StatsProgress,
    SubscriptionSummary,
)
from console.queries.past import past_of
from console.words.numerals import clock
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop
from tests.integration.console.test_history import (
    BILLING,
    NOW_MS,
    ORDERS,
    add,
    an_act,
    minutes_ago,
    rolled_until,
)


def moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def at(time_ms: int) -> str:
    """Return a time as links write it."""
    return moment(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def figures(answer: Any) -> str:
    """Return the text between the link to the present and the heading "What else is known"."""
    assert answer.status_code == 200, answer.content
    return text_of(answer).partition("What else is known")[0].partition("Look at the present")[2]


@pytest.fixture
def past(shop: Shop) -> Shop:
    """A shop with a statistics point half an hour ago, and one three hours ago."""
    for subscription_id in (0, shop.billing.pk):
        add(StatsPoint10s, shop.topic.pk, subscription_id, minutes=30)
        add(StatsPoint60s, shop.topic.pk, subscription_id, minutes=180)
    rolled_until(10)
    return shop


@pytest.mark.parametrize(
    ("minutes", "numbers"),
    [
        (30, "Backlog 14 at most 1 234 In 10.0/s Out 5.0/s Acked 4.0/s Redelivered 1.0/s"),
        (31, "Backlog 20 at most 20 In 0/s Out 0/s Acked 0/s Redelivered 0/s"),
        (20, "Backlog 14 at most 14 In 0/s Out 0/s Acked 0/s Redelivered 0/s"),
        (180, "Backlog 14 at most 1 234 In 10.0/s"),
    ],
    ids=["in a point", "before the point", "long after it", "in an older and longer point"],
)
def test_the_page_shows_the_numbers_of_its_moment(
    minutes: int, numbers: str, looker: Client, past: Shop
) -> None:
    assert numbers in figures(looker.get(f"{BILLING}/past?at={at(minutes_ago(minutes))}"))


def test_the_page_of_a_topic_shows_its_size_too(looker: Client, past: Shop) -> None:
    text = figures(looker.get(f"{ORDERS}/past?at={at(minutes_ago(30))}"))
    assert "Backlog 14" in text
    assert "Stored 5.0 MB" in text


def test_a_subject_without_points_and_what_no_point_says_is_unknown(looker: Client, shop: Shop) -> None:
    SubscriptionSummary.objects.update(state_since_ms=NOW_MS)
    text = text_of(looker.get(f"{BILLING}/past?at={at(minutes_ago(30))}"))
    assert "Backlog – In" in text
    assert "The backlog around this moment is not known." in text
    assert not re.search("(at most|up to) –", text)
    assert "The state at this moment is not stored" in text
    assert "Vela does not store who was connected" in text


def test_a_backlog_of_nothing_is_known(looker: Client, past: Shop) -> None:
    StatsPoint10s.objects.update(backlog_before=0, backlog=0, backlog_most=0)
    text = text_of(looker.get(f"{BILLING}/past?at={at(minutes_ago(30))}"))
    assert "Backlog 0 at most 0" in text
    assert "The largest backlog in each step of 10 s, up to 0." in text


@pytest.mark.parametrize(
    ("minutes", "reason"),
    [(-60, "it is in the future"), (100 * 24 * 60, "it was more than 90 d ago")],
    ids=["ahead", "older than everything"],
)
def test_a_moment_of_which_nothing_is_stored_says_so(
    minutes: int, reason: str, looker: Client, past: Shop
) -> None:
    answer = looker.get(f"{BILLING}/past?at={at(minutes_ago(minutes))}")
    assert answer.status_code == 200
    assert f"Nothing is stored about this moment, because {reason}." in text_of(answer)


@pytest.mark.parametrize(
    ("step_s", "rates"),
    [
        (60, "In 1.7/s Out 0.8/s"),
        (360, "In 0.3/s Out 0.1/s"),
        (600, "In 0.2/s Out 0.1/s"),
    ],
)
def test_a_step_of_a_chart_is_shown_whole(step_s: int, rates: str, looker: Client, past: Shop) -> None:
    begin_ms = minutes_ago(30) - 20_000
    text = figures(looker.get(f"{BILLING}/past?at={at(begin_ms)}&step={step_s}"))
    assert f"Backlog 14 at most 1 234 {rates}" in text
    begin, end = (clock(each, NOW_MS) for each in (begin_ms, begin_ms + step_s * 1000))
    assert f"{begin} to {end}" in text
    assert "In 0/s" in figures(looker.get(f"{BILLING}/past?at={at(begin_ms)}"))


def test_a_step_of_two_hours_is_read_from_the_points_that_its_chart_reads(looker: Client, past: Shop) -> None:
    past.billing.created_at = moment(0)
    past.billing.save(update_fields=["created_at"])
    begin_ms = minutes_ago(10 * 24 * 60) // 7_200_000 * 7_200_000
    StatsProgress.objects.create(resolution_s=3600, until_ms=minutes_ago(60))
    for hour in (0, 1):
        for subscription_id in (0, past.billing.pk):
            add(
                StatsPoint3600s,
                past.topic.pk,
                subscription_id,
                minutes=0,
                at_ms=begin_ms + hour * 3_600_000,
                messages_out=7200 * hour,
            )
    answer = looker.get(f"{BILLING}/past?at={at(begin_ms)}&step=7200")
    text = figures(answer)
    assert "in steps of 2 h" in text_of(answer)
    assert "Out 1.0/s" in text


def test_steps_are_as_long_as_the_points_that_are_still_kept(looker: Client, past: Shop) -> None:
    text = text_of(looker.get(f"{BILLING}/past?at={at(minutes_ago(180) + 10_000)}&step=10"))
    assert "in steps of 60 s" in text
    assert "In 10.0/s" in text


def test_links_to_neighbours_and_rows_keep_the_length_of_the_steps(looker: Client, past: Shop) -> None:
    begin_ms = minutes_ago(60)
    html = looker.get(f"{BILLING}/past?at={at(begin_ms)}&step=600").content.decode()
    for minutes in (-10, 10, 20):
        assert f"/past?at={at(begin_ms + minutes * 60_000)}&amp;step=600" in html
    middle_ms = begin_ms + 300_000
    assert f'/past?at={at(middle_ms)}&amp;step=60"' in html
    assert "In steps of" not in text_of(looker.get(f"{BILLING}/past?at={at(begin_ms)}"))


@pytest.mark.parametrize("step", ["", "0", "-60", "x", "1" * 5000, "٦٠"])
def test_an_invalid_length_of_steps_is_ignored(step: str, looker: Client, past: Shop) -> None:
    answer = looker.get(f"{BILLING}/past", {"at": at(minutes_ago(30)), "step": step})
    assert "In 10.0/s" in figures(answer)


def test_the_last_step_ends_with_the_newest_point(looker: Client, past: Shop) -> None:
    begin_ms = int(time.time() * 1000) // 7_200_000 * 7_200_000 - 3_600_000
    found = past_of(begin_ms, past.topic.pk, step_s=7200 + 3600, created_at=moment(0))
    assert found is not None
    assert found.step.seconds is not None
    newest_ms = begin_ms + found.step.seconds * 1000
    assert newest_ms <= time.time() * 1000 <= newest_ms + 20_000
    text = figures(looker.get(f"{ORDERS}/past?at={at(begin_ms)}&step=10800"))
    assert clock(begin_ms + 10_800_000, NOW_MS) not in text


def test_an_alert_that_fired_and_cleared_within_the_step_is_named(looker: Client, past: Shop) -> None:
    AlertFiring.objects.create(
        rule_name="brief",
        severity="critical",
        measure="backlog",
        topic_id=past.topic.pk,
        subscription_id=past.billing.pk,
        topic_name=past.topic.name,
        subscription_name="billing",
        value=1,
        over_since_ms=1,
        fired_ms=minutes_ago(27),
        cleared_ms=minutes_ago(26),
    )
    page = f"{BILLING}/past?at={at(minutes_ago(30))}"
    assert "The alert brief was firing" in text_of(looker.get(f"{page}&step=600"))
    assert "No stored alert was firing during this step." in text_of(looker.get(page))


def test_for_a_moment_long_ago_the_numbers_of_its_hour_are_shown(looker: Client, shop: Shop) -> None:
    hour = minutes_ago(20 * 24 * 60) // 3_600_000 * 3_600_000
    StatsProgress.objects.create(resolution_s=3600, until_ms=minutes_ago(60))
    add(StatsPoint3600s, shop.topic.pk, shop.billing.pk, minutes=0, at_ms=hour, backlog=77)
    shop.billing.created_at = datetime.fromtimestamp(0, UTC)
    type(shop.billing).objects.filter(pk=shop.billing.pk).update(created_at=shop.billing.created_at)
    text = figures(looker.get(f"{BILLING}/past?at={at(hour + 60_000)}"))
    assert "Backlog 77" in text


def test_steps_older_than_the_points_that_are_kept_are_unknown(past: Shop) -> None:
    # Points of 10 s are kept for two hours, and the step before this moment is older.
    at_ms = int(time.time() * 1000) - 118 * 60_000
    found = past_of(at_ms, past.topic.pk, created_at=moment(0))
    assert found is not None
    assert found.step is not None
    assert (found.steps[0].message_rate_in, found.step.message_rate_in) == (None, 0)


def test_a_moment_whose_points_were_never_rolled_up_is_unknown(past: Shop) -> None:
    at_ms = int(time.time() * 1000) - 48 * 3_600_000  # in points of ten minutes
    add(StatsPoint10s, past.topic.pk, minutes=49 * 60)
    StatsProgress.objects.all().delete()
    found = past_of(at_ms, past.topic.pk, created_at=moment(0))
    assert found is not None
    assert found.step is not None
    assert (found.step.message_rate_in, found.step.backlog_messages) == (None, None)


def test_acts_pause_state_and_alerts_of_that_moment(operator: Client, past: Shop) -> None:
    SubscriptionSummary.objects.update(state_since_ms=minutes_ago(40))
    pause = an_act(past, kind="pause", finished_at=moment(minutes_ago(33)))
    an_act(past, kind="resume", finished_at=moment(minutes_ago(10)))
    firing = {
        "rule_name": "too much",
        "severity": "critical",
        "measure": "backlog",
        "topic_id": past.topic.pk,
        "subscription_id": past.billing.pk,
        "topic_name": past.topic.name,
        "subscription_name": "billing",
        "value": 1,
        "over_since_ms": 1,
    }
    AlertFiring.objects.create(fired_ms=minutes_ago(32), cleared_ms=minutes_ago(5), **firing)
    AlertFiring.objects.create(fired_ms=minutes_ago(9), **{**firing, "rule_name": "later"})
    answer = operator.get(f"{BILLING}/past?at={at(minutes_ago(30))}")
    text = text_of(answer)
    assert f"The subscription was paused by act {pause.pk} of ada." in text
    assert "The state was draining , and has been the same since" in text
    assert "The alert too much was firing" in text
    assert "later" not in text
    html = answer.content.decode()
    assert f'href="/acts/{pause.pk}"' in html
    assert 'method="post" action="/acts' not in html
    assert "/act/" not in html


def test_the_pause_of_a_moment_is_the_act_applied_last_and_not_the_one_planned_last(
    looker: Client, past: Shop
) -> None:
    pause = an_act(past, kind="pause", finished_at=moment(minutes_ago(33)))
    an_act(past, kind="resume", finished_at=moment(minutes_ago(36)))
    text = text_of(looker.get(f"{BILLING}/past?at={at(minutes_ago(30))}"))
    assert f"The subscription was paused by act {pause.pk} of ada." in text


def test_a_chart_a_row_and_a_receipt_lead_to_the_moment(
    operator: Client, past: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = operator.get(BILLING).content.decode()
    assert f'data-past="{BILLING}/past"' in html
    assert f'href="{BILLING}/past?at=' in html
    fake = FakeActs()
    monkeypatch.setattr(acts, "get", fake.get)
    fake.plan("clear", topic=past.topic.name, subscription="billing", parameters={}, who="ada", origin="x")
    fake.apply(1, who="ada", origin="x")
    assert f'href="{BILLING}/past?at=2026-01-01T00:00:00.000Z"' in operator.get("/acts/1").content.decode()


def test_invalid_times_and_unknown_subjects_are_refused(looker: Client, shop: Shop) -> None:
    refused = looker.get(f"{BILLING}/past?at=yesterday")
    assert (refused.status_code, "Write the time as" in text_of(refused)) == (422, True)
    assert looker.get(f"{ORDERS}/s/nobody/past").status_code == 404
    assert looker.get(f"{ORDERS}-not/past").status_code == 404
