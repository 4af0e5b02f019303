"""Pages show a visible mark instead of each control or direction character in a client's text."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.utils.html import escape
from django.utils.timezone import now

from broker.acts import requests as acts
from broker.acts.requests import check_topic_name
from broker.models import (
    Act,
    AlertFiring,
    ConsumerSession,
    PendingAck,
    ProducerSession,
    Subscription,
    SubscriptionSummary,
    Topic,
)
from console.marks import shown
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.shop import Shop
from tests.support.plans import a_plan
from vela.wire.entry import encode_single

UNSEEN = "\u202e\u2066\u200b\u061c\ufeff"
TOPIC = f"persistent://public/default/tea{UNSEEN}pot"
NAME = f"bill{UNSEEN}\x1b\x85\u2028ing"
PLACE = f"/t/persistent/public/default/{quote(f'tea{UNSEEN}pot')}"
SUBSCRIPTION = f"{PLACE}/s/{quote(NAME)}"
ADDRESSES = [
    "/",
    "/topics",
    f"/topics?q={quote(UNSEEN)}",
    PLACE,
    f"{PLACE}?tab=producers",
    f"{PLACE}?tab=ledgers",
    SUBSCRIPTION,
    f"{SUBSCRIPTION}/act/rewind",
    f"{SUBSCRIPTION}-absent",
    f"{PLACE}-absent",
    "/acts",
    "/acts/1",
    "/consumers",
    f"/consumers?name={quote(UNSEEN)}&flag=silent",
    "/producers",
]
RAW = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture
def hostile(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop, with every text of a client replaced."""
    check_topic_name(TOPIC)  # the broker accepts this name
    Topic.objects.filter(pk=shop.topic.pk).update(name=TOPIC)
    Subscription.objects.update(name=NAME)
    ConsumerSession.objects.update(name=NAME, client_version=NAME, subscription_name=NAME)
    ProducerSession.objects.update(name=NAME, client_version=NAME, last_error=NAME)
    PendingAck.objects.update(consumer_name=NAME)
    SubscriptionSummary.objects.update(problems={NAME: 3})
    Act.objects.create(
        kind="clear",
        state="planned",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=TOPIC,
        subscription_name=NAME,
        who=NAME,
        origin=NAME,
        reason=NAME,
        error=NAME,
        plan={"words": [NAME], "notes": [NAME], "skipped_messages": 3},
        requested_at="2026-01-01T00:00:00Z",
    )
    planned = FakeActs(next_plan=a_plan(words=[NAME], notes=[NAME], skipped_messages=3))
    planned.plan("clear", topic=TOPIC, subscription=NAME, parameters={}, who=NAME, origin=NAME, reason=NAME)
    monkeypatch.setattr(acts, "get", planned.get)
    monkeypatch.setattr(acts, "apply", planned.apply)
    data = encode_single(
        producer_name="till",
        sequence_id=1,
        publish_time_ms=shop.now_ms,
        payload=f'"{NAME}"'.encode(),
        properties={NAME: NAME},
        key=NAME,
    )
    with connection.cursor() as cursor:
        table = f"vela_entry_{shop.sealed.segment_id}"
        cursor.execute(f"UPDATE {table} SET data = %s WHERE ledger_id = %s", [data, shop.sealed.pk])
    return shop


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_unseen_character_is_on_the_page(address: str, operator: Client, hostile: Shop) -> None:
    html = operator.get(address).content.decode()
    assert RAW.findall(html) == []
    assert "[U+202E]" in html or "&#x202E;" in html or address.startswith("/topics?q")


@pytest.mark.parametrize("part", ["standing", "numbers", "consumers", "pending", "next", "acts"])
def test_no_unseen_character_is_in_a_part(part: str, operator: Client, hostile: Shop) -> None:
    answer = operator.get(f"{SUBSCRIPTION}?part={part}")
    assert (answer.status_code, RAW.findall(answer.content.decode())) == (200, [])


def test_titles_show_marks_as_text_and_links_and_parts_keep_the_true_name(
    operator: Client, hostile: Shop
) -> None:
    html = operator.get(SUBSCRIPTION).content.decode()
    title = html.partition("<title>")[2].partition("</title>")[0]
    assert "[U+202E]" in title
    assert "<" not in title
    assert f'href="{PLACE}"' in html
    parts = re.findall(r'hx-get="([^"]*)"', html)
    assert [operator.get(part.replace("&amp;", "&")).status_code for part in parts] == [200] * 11


@pytest.mark.parametrize(("typed", "status"), [(NAME, 302), (shown(NAME), 302), ("billing", 422)])
def test_a_name_is_confirmed_as_it_is_or_as_it_is_shown(
    typed: str, status: int, operator: Client, hostile: Shop
) -> None:
    assert operator.post("/acts/1/apply", {"confirm": typed}).status_code == status


@pytest.mark.parametrize("address", ["/", "/acts", "/alerts"])
def test_a_name_with_quotes_is_escaped_once(address: str, looker: Client, shop: Shop) -> None:
    name = """it's "tea" & <milk>"""
    Act.objects.create(
        kind="clear",
        state="applied",
        topic=shop.topic,
        topic_name=shop.topic.name,
        subscription_name=name,
        who="ada",
        requested_at=now(),
    )
    AlertFiring.objects.create(
        rule_name="behind",
        severity="critical",
        measure="backlog",
        topic_id=shop.topic.pk,
        subscription_id=shop.billing.pk,
        namespace_id=shop.topic.namespace_id,
        topic_name=shop.topic.name,
        subscription_name=name,
        value=1,
        over_since_ms=1,
        fired_ms=1,
    )
    html = looker.get(address).content.decode()
    assert f">{escape(name)}<" in html
    assert escape(escape(name)) not in html
