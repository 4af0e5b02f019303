"""Partitioned topics: the sums, a row for each partition, and one page for a subscription of all partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.acts import requests as acts
from broker.models import (
    Act,
    ConsumerSession,
    Cursor,
    Ledger,
    ProducerSession,
    Subscription,
    SubscriptionState,
    SubscriptionSummary,
    Topic,
    TopicSummary,
)
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, connect, make_topic
from tests.support.plans import a_partitioned_plan

DATES = "/t/persistent/public/default/dates"
SLOW = f"{DATES}/s/slow"


@pytest.fixture
def dates(shop: Shop) -> Topic:
    """`dates` with two partitions of 1,000 messages each. `slow` has acked 900 of one and 400 of the other."""
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = 2
    parent.save()
    for number, acked in ((0, 900), (1, 400)):
        add_partition(parent, number, acked, shop.now_ms)
    return parent


def add_partition(parent: Topic, number: int, acked: int, now_ms: int) -> None:
    """Add a partition with 1,000 messages, a producer, and the subscription `slow`, which has acked `acked` of them."""
    topic = make_topic(f"{parent.name}-partition-{number}", backlog=1000 - acked, rate=2.0, parent=parent)
    topic.partition = number
    topic.save()
    state = SubscriptionState.STUCK if number else SubscriptionState.DRAINING
    TopicSummary.objects.filter(topic=topic).update(messages_in=1000, state=state)
    Ledger.objects.create(
        topic=topic,
        segment=None,
        state="sealed",
        entries=1000,
        messages=1000,
        size_bytes=5000,
        opened_ms=1,
    )
    slow = Subscription.objects.create(topic=topic, name="slow", type="Shared", paused=False)
    Cursor.objects.create(
        subscription=slow,
        mark_delete_ledger=1,
        mark_delete_entry=acked,
        acked_messages=acked,
        acked_entries=acked,
        acked_bytes=acked,
    )
    SubscriptionSummary.objects.create(
        subscription=slow,
        acked_messages=acked,
        acked_bytes=acked,
        read_ledger=1,
        read_entry=acked,
        consumers=1,
        unacked_messages=3,
        replay_entries=0,
        message_rate_out=5.0,
        message_rate_acked=0.0 if number else 5.0,
        messages_redelivered=0,
        updated_ms=now_ms,
        state=state,
    )
    connect(slow, key=10 + number, now_ms=now_ms)
    producer = ProducerSession.objects.get(key=1)
    producer.pk, producer.topic_id = 10 + number, topic.pk
    producer.save(force_insert=True)


def test_a_topic_s_numbers_are_the_sums_of_its_partitions(looker: Client, dates: Topic) -> None:
    words = text_of(looker.get(DATES))
    assert "Largest backlog 700" in words
    assert "In 4.0/s" in words
    assert "Producers 2" in words
    assert "Published in total 2 000" in words


def test_a_topic_lists_each_subscription_once(looker: Client, dates: Topic) -> None:
    page = looker.get(DATES)
    assert "slow ✕ stuck Shared 700 2 2" in text_of(page)
    assert f'href="{SLOW}"' in page.content.decode()


def test_each_partition_has_a_row_with_its_state(looker: Client, dates: Topic) -> None:
    words = text_of(looker.get(f"{DATES}?tab=partitions"))
    assert "dates-partition-0 ● draining 100 2.0/s 1 000" in words
    assert "dates-partition-1 ✕ stuck 600 2.0/s 1 000" in words


def test_a_subscription_of_all_partitions_has_one_page_with_their_sums(
    operator: Client, looker: Client, dates: Topic
) -> None:
    page = looker.get(SLOW)
    words = text_of(page)
    assert "Shared subscription on dates with 2 partitions, 2 consumers." in words
    assert "700 left" in words
    assert "In flight 2" in words
    assert "In 4.0/s" in words
    assert "0 ● draining 100" in words
    assert "1 ✕ stuck 600" in words
    assert f'href="{DATES}-partition-1/s/slow"' in page.content.decode()
    assert "To skip a number of messages, open one partition" not in words
    assert "Recent acts Nobody has moved this cursor." in words
    assert f'href="{SLOW}/act/rewind"' not in page.content.decode()
    page = operator.get(SLOW)
    assert "To skip a number of messages, open one partition" in text_of(page)
    assert f'href="{SLOW}/act/rewind"' in page.content.decode()


def test_why_tells_what_is_wrong_once_for_all_partitions(
    operator: Client, looker: Client, dates: Topic
) -> None:
    ConsumerSession.objects.all().delete()
    page = operator.get(SLOW)
    words = text_of(page)
    nobody = (
        "No consumer is connected, and none has been connected since the subscription was created. What to do"
    )
    assert f"{nobody} On all partitions. The numbers are those of partition 1. subscription created" in words
    assert words.count(nobody) == 1
    found = looker.get(f"/api/v1/topics{DATES[2:]}/subscriptions/slow/diagnosis").json()
    assert found["topic"] == dates.name
    assert found["partitions_left_out"] == 0
    leading = found["findings"][0]
    assert (leading["rule"], leading["partition"], leading["partitions"]) == ("no_consumer", 1, [0, 1])
    connect(Subscription.objects.get(topic__partition=0), key=20, now_ms=0)
    assert "On partition 1." in text_of(operator.get(SLOW))


def test_why_names_the_partitions_if_others_do_not_have_the_subscription(
    looker: Client, dates: Topic
) -> None:
    ConsumerSession.objects.all().delete()
    Topic.objects.filter(pk=dates.pk).update(partitions=3)
    words = text_of(looker.get(SLOW))
    assert "On partitions 0, 1. The numbers are those of partition 1." in words
    assert "On all partitions" not in words


def test_the_diagnosis_of_a_subscription_that_no_partition_has_is_not_found(
    looker: Client, dates: Topic
) -> None:
    answer = looker.get(f"/api/v1/topics{DATES[2:]}/subscriptions/none/diagnosis")
    assert (answer.status_code, answer.json()["code"]) == (404, "SubscriptionNotFound")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, dates: Topic) -> FakeActs:
    """A broker that answers at once."""
    fake = FakeActs(next_plan=a_partitioned_plan([4, 1200], dates.name))
    for each in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, each, getattr(fake, each))
    return fake


def test_the_third_number_of_an_id_names_the_partition(
    operator: Client, dates: Topic, broker: FakeActs
) -> None:
    assert operator.post(f"{SLOW}/act/skip_one", {"id": "45:0:1", "partition": ["0", "1"]}).status_code == 302
    _, asked = broker.asked[-1]
    assert asked[3] == {"id": "45:0:1"}


def test_an_act_on_all_partitions_leads_from_form_to_receipt(
    operator: Client, dates: Topic, broker: FakeActs
) -> None:
    form = operator.get(f"{SLOW}/act/rewind")
    assert form.content.decode().count("checked>") == 2
    assert "By messages" not in text_of(form)
    assert f"{SLOW}/act/skip_one" in form.content.decode()
    for of_one_partition in ("skip", "redrive"):
        assert f'{SLOW}/act/{of_one_partition}"' not in form.content.decode()
    planned = operator.post(f"{SLOW}/act/rewind", {"back": "1h", "partition": ["0", "1"]}, follow=True)
    asked = (
        "reset",
        dates.name,
        "slow",
        {"to": "back_time", "back_ms": 3_600_000},
        "ada",
        "console 127.0.0.1",
    )
    assert broker.asked == [("plan", asked)]
    words = text_of(planned)
    assert "Delivered again 1 204 already acked" in words
    assert "Backlog 24 messages 1 228 messages" in words
    assert "1 1 200 0 1 1 212 now 12 1:4 → 1:0" in words
    assert f'href="{DATES}-partition-1/s/slow"' in planned.content.decode()
    broker.acts[1] = replace(
        broker.acts[1],
        state="failed",
        error="partition 1: the topic moved to another broker; plan the act again for the partitions that are left",
        result={
            **dict.fromkeys(("skipped_messages", "consumers_closed"), 0),
            "replayed_messages": 7,
            "partitions": [
                {**done_on(dates, 0), "replayed_messages": 7},
                {
                    "partition": 1,
                    "topic": f"{dates.name}-partition-1",
                    "error": "not tried, because an earlier partition failed",
                },
            ],
        },
    )
    words = text_of(operator.get("/acts/1"))
    assert "0 7 planned 4 0 1 16 1:4 → 1:0" in words
    assert "1 Not tried, because an earlier partition failed." in words
    assert "What will happen" not in words


def done_on(dates: Topic, partition: int) -> dict[str, object]:
    return {
        "partition": partition,
        "topic": f"{dates.name}-partition-{partition}",
        "skipped_messages": 0,
        "backlog_messages": 16,
        "before": "1:4",
        "after": "1:0",
    }


def test_an_act_is_planned_for_the_ticked_partitions_only(
    operator: Client, dates: Topic, broker: FakeActs
) -> None:
    linked = operator.get(f"{SLOW}/act/clear?partition=1&partition=77").content.decode()
    assert linked.count("checked>") == 1
    operator.post(f"{SLOW}/act/clear", {"partition": "1"})
    assert broker.asked[0][1][3] == {"partitions": "1"}
    none = operator.post(f"{SLOW}/act/clear", {})
    assert (none.status_code, "Tick at least one partition." in text_of(none)) == (422, True)
    wrong = operator.post(f"{SLOW}/act/clear", {"partition": "7"})
    assert (wrong.status_code, "Tick partitions that have" in text_of(wrong)) == (422, True)
    assert len(broker.asked) == 1
    assert operator.get(f"{SLOW}/act/skip").status_code == 404
    assert operator.get(f"{SLOW}/act/redrive").status_code == 404


@pytest.mark.parametrize(("kind", "has_form"), [("clear", True), ("skip", False), ("redrive", False)])
def test_a_refused_act_leads_to_a_form_only_if_the_form_is_for_several_partitions(
    kind: str, has_form: bool, operator: Client, broker: FakeActs
) -> None:
    operator.post(f"{SLOW}/act/clear", {"partition": ["0", "1"]})
    broker.acts[1] = replace(broker.acts[1], kind=kind, state="refused", error="choose one partition")
    page = operator.get("/acts/1").content.decode()
    assert (f'href="{SLOW}/act/{kind}">Change the request' in page) is has_form
    assert ("Change the request" in page) is has_form


def test_many_partitions_are_chosen_by_a_list_of_ranges(
    operator: Client, dates: Topic, broker: FakeActs, shop: Shop
) -> None:
    for number in range(2, 70):
        add_partition(dates, number, 500, shop.now_ms)
    Topic.objects.filter(pk=dates.pk).update(partitions=70)
    assert "leave it empty for all" in text_of(operator.get(f"{SLOW}/act/clear"))
    operator.post(f"{SLOW}/act/clear", {"partitions": " 0,2-5 "})
    operator.post(f"{SLOW}/act/clear", {"partitions": ""})
    assert [each[1][3] for each in broker.asked] == [{"partitions": "0,2-5"}, {}]


def test_the_log_shows_an_act_on_partitions_once(looker: Client, dates: Topic) -> None:
    whole = Act.objects.create(
        kind="clear",
        state="applied",
        topic=dates,
        topic_name=dates.name,
        subscription_name="slow",
        parameters={"partitions": "0"},
        who="ada",
        origin="console",
        requested_at=now(),
    )
    subscription = Subscription.objects.get(name="slow", topic__partition=0)
    part = Act.objects.create(
        kind="clear",
        state="applied",
        topic=subscription.topic,
        subscription=subscription,
        topic_name=subscription.topic.name,
        subscription_name="slow",
        part_of=whole,
        who="ada",
        origin="console",
        requested_at=now(),
    )
    log = looker.get("/acts")
    html = log.content.decode()
    assert (f'href="/acts/{whole.pk}"' in html, f'href="/acts/{part.pk}"' in html) == (True, False)
    assert "clear the backlog on partition 0" in text_of(log)
    assert f'href="/acts/{part.pk}"' in looker.get(f"{DATES}-partition-0/s/slow").content.decode()
    Act.objects.filter(pk=part.pk).update(part_of=None)
    recent = looker.get(f"{SLOW}?part=acts")
    assert f'href="/acts/{whole.pk}"' in recent.content.decode()
    assert "clear the backlog on dates-partition-0" in text_of(recent)


def test_pause_and_resume_are_offered_by_state(operator: Client, dates: Topic) -> None:
    def offered() -> tuple[bool, bool]:
        html = operator.get(SLOW).content.decode()
        return f'{SLOW}/act/pause"' in html, f'{SLOW}/act/resume"' in html

    slow = Subscription.objects.filter(name="slow")
    assert offered() == (True, False)
    slow.filter(topic__partition=0).update(paused=True)
    assert offered() == (True, True)
    slow.update(paused=True)
    assert offered() == (False, True)


def test_subscriptions_and_bookmarks_are_created_on_all_partitions_at_once(
    operator: Client, dates: Topic, broker: FakeActs
) -> None:
    operator.post(f"{DATES}/act/subscription", {"name": "audit", "type": "Shared", "to": "earliest"})
    operator.post(f"{DATES}/act/bookmark", {"name": "monday", "keep_days": "1", "to": "latest"})
    assert [each[1][:2] for each in broker.asked] == [
        ("create_subscription", dates.name),
        ("create_bookmark", dates.name),
    ]


def test_the_page_of_one_partitions_act_names_the_act_on_all(
    operator: Client, dates: Topic, broker: FakeActs
) -> None:
    operator.post(f"{SLOW}/act/clear", {"partition": "1"})
    broker.acts[1] = replace(broker.acts[1], part_of=5)
    assert "one partition's part of act 5" in text_of(operator.get("/acts/1")).replace("&#x27;", "'")
