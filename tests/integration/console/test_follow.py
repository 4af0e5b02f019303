"""Following a topic: each request finds the messages since the last one, says how many it skipped, and costs little."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.test import Client

from broker.models import Cursor, Ledger, Subscription
from console.messages.asked import Asked, AskedInvalid
from console.messages.filters import Filters
from console.queries.topics.topic import topic_head
from console.tail import follow as tail
from console.tail.follow import LOOK_BOUNDS, follow
from console.tail.since import Since
from tests.integration.console.messages import Written, append, write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import make_topic
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

TEA = "persistent://public/default/tea"
PAGE = "/t/persistent/public/default/tea/messages/follow"


def single(number: int, **more: Any) -> bytes:
    return encode_single(
        **{
            "producer_name": "p",
            "sequence_id": number,
            "publish_time_ms": 1_700_000_000_000,
            "payload": json.dumps({"n": number, "even": number % 2 == 0}).encode(),
            **more,
        }
    )


def batch(size: int) -> bytes:
    members = [OutgoingMessage(payload=b"b", key="k") for _ in range(size)]
    return encode_batch(members, producer_name="p", sequence_id=1, publish_time_ms=1)


@pytest.fixture
def log(db: None) -> Written:
    """Thirty messages in two ledgers."""
    return write_log(TEA, [single(number) for number in range(30)], ledger_entries=20)


def spots(response: Any) -> list[str]:
    return re.findall(r"data-message\s+href=\"[^\"]*/m/([0-9:]+)\"", response.content.decode())


def since_of(response: Any) -> str:
    found = re.search(r'rel="next" href="\?([^"]*)"', response.content.decode())
    assert found is not None
    return str(parse_qs(found[1].replace("&amp;", "&"))["since"][0])


def looked(asked: Asked | None = None, since: Since | None = None, **bounds: Any) -> tail.Followed:
    head = topic_head(TEA)
    assert head is not None
    return follow(head, asked or Asked(), since, replace(LOOK_BOUNDS, **bounds))


def test_the_first_request_shows_the_newest_messages_and_later_ones_only_new_ones(
    operator: Client, log: Written
) -> None:
    page = operator.get(PAGE)
    assert spots(page) == [log.spot(number) for number in range(29, 9, -1)]
    assert "The newest messages are below." in text_of(page)
    nothing = operator.get(f"{PAGE}?since={since_of(page)}")
    assert (spots(nothing), "0 messages have arrived." in text_of(nothing)) == ([], True)
    append(log.ledgers[-1], [single(30), single(31)])
    came = operator.get(f"{PAGE}?part=tail&since={since_of(nothing)}")
    assert spots(came) == [f"{log.ledgers[-1].pk}:11", f"{log.ledgers[-1].pk}:10"]
    assert "2 messages have arrived." in text_of(came)
    append(log.ledgers[-1], [batch(3)])
    more = operator.get(f"{PAGE}?part=tail&since={since_of(came)}")
    assert spots(more) == [f"{log.ledgers[-1].pk}:12:{index}" for index in (2, 1, 0)]
    assert "5 messages have arrived." in text_of(more)


def test_only_what_matches_is_shown(operator: Client, log: Written) -> None:
    page = operator.get(f"{PAGE}?path=even&value=true&start=oldest&order=newer&after=nonsense&limit=1&at=x")
    assert spots(page) == [log.spot(number) for number in range(28, -2, -2)][:20]
    assert "even = true" in text_of(page)
    append(log.ledgers[-1], [single(30), single(31), single(32)])
    came = operator.get(f"{PAGE}?path=even&value=true&since={since_of(page)}")
    assert spots(came) == [f"{log.ledgers[-1].pk}:{entry}" for entry in (12, 10)]
    assert "2 messages that match have arrived." in text_of(came)


def test_a_request_that_reaches_its_limit_says_how_many_it_skipped(log: Written) -> None:
    first = looked()
    append(log.ledgers[-1], [single(number) for number in range(30, 60)])
    second = looked(since=first.since, entries=10)
    assert (second.matched, second.skipped, len(second.rows)) == (10, 20, 10)
    assert second.rows[0].message.entry_id == 39
    append(log.ledgers[-1], [single(number) for number in range(60, 65)])
    third = looked(since=second.since, entries=3)
    assert (third.since.matched, third.since.skipped) == (13, 22)
    assert third.rows[0].message.entry_id == 44
    assert looked(since=third.since).rows == []


def test_more_rows_than_a_page_shows_are_counted(log: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MOST_FOLLOWED", 4)
    first = looked()
    append(log.ledgers[-1], [batch(5), batch(5)])
    second = looked(since=first.since)
    assert (len(second.rows), second.matched, second.skipped) == (4, 10, 0)


def test_entries_that_their_key_hash_leaves_out_are_not_skipped(log: Written) -> None:
    asked = Asked(filters=Filters(key="k7"))
    first = looked(asked)
    append(log.ledgers[-1], [single(number, key=f"k{number % 10}") for number in range(30, 60)])
    second = looked(asked, first.since)
    assert (second.matched, second.skipped) == (3, 0)


def test_a_topic_without_a_message_says_so(operator: Client, db: None) -> None:
    make_topic(TEA)
    page = operator.get(PAGE)
    assert "No message has arrived yet." in text_of(page)
    log = write_log(TEA + "-other", [single(0)])
    Ledger.objects.filter(pk=log.ledgers[0].pk).update(topic_id=topic_id_of(TEA))
    assert spots(operator.get(f"{PAGE}?since={since_of(page)}")) == [f"{log.ledgers[0].pk}:0"]


def topic_id_of(name: str) -> int:
    head = topic_head(name)
    assert head is not None
    return head.id


def test_messages_that_were_trimmed_since_are_not_an_error(log: Written) -> None:
    first = looked()
    old, new = log.ledgers
    append(new, [single(30)])
    Ledger.objects.filter(pk=old.pk).delete()
    place = (old.pk, 3)
    second = looked(since=replace(first.since, places=(place,)))
    assert (len(second.rows), second.skipped) == (11, 0)


def test_each_partition_is_followed_from_its_own_position(db: None) -> None:
    """A message may become visible after a message of another partition that was stored later."""
    parent = make_topic(TEA)
    type(parent).objects.filter(pk=parent.pk).update(partitions=2)
    logs = [write_log(f"{TEA}-partition-{index}", [single(index)], parent=parent) for index in range(2)]
    for index, log in enumerate(logs):
        type(parent).objects.filter(pk=log.topic.pk).update(partition=index)
    first = looked()
    assert len(first.rows) == 2
    append(logs[0].ledgers[0], [single(number) for number in range(5)])
    second = looked(since=first.since)
    assert (len(second.rows), {row.partition for row in second.rows}) == (5, {0})
    # Stored a second after the partition's first message, and before the last message of partition 0.
    append(logs[1].ledgers[0], [single(7)])
    third = looked(since=second.since)
    assert [(row.partition, row.message.entry_id) for row in third.rows] == [(1, 1)]
    added = write_log(f"{TEA}-partition-2", [single(8)], parent=parent)
    type(parent).objects.filter(pk=added.topic.pk).update(partition=2)
    assert [row.partition for row in looked(since=third.since).rows] == [2]
    with pytest.raises(AskedInvalid):
        looked(Asked(partition=1), third.since)


def test_a_viewer_sees_metadata_only(looker: Client, log: Written) -> None:
    page = looker.get(PAGE)
    append(log.ledgers[-1], [single(30, key="customer-1", properties={"region": "eu"})])
    came = looker.get(f"{PAGE}?part=tail&since={since_of(page)}")
    assert spots(came) == [f"{log.ledgers[-1].pk}:10"]
    for answer in (page, came):
        for hidden in ("customer-1", "region", "&quot;n&quot;"):
            assert hidden not in answer.content.decode()
    refused = looker.get(f"{PAGE}?key=customer-1")
    assert (refused.status_code, "need the reader role" in text_of(refused)) == (400, True)


def test_messages_show_their_state_on_a_subscription(operator: Client, log: Written) -> None:
    subscription = Subscription.objects.create(topic=log.topic, name="billing", type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=log.ledgers[-1].pk,
        mark_delete_entry=8,
        acked_messages=29,
        acked_entries=29,
        acked_bytes=1,
    )
    words = text_of(operator.get(f"{PAGE}?sub=billing"))
    assert ("unacked" in words, "acked" in words) == (True, True)
    assert operator.get(f"{PAGE}?sub=nobody").status_code == 400


@pytest.mark.parametrize(
    "since", ["x", "1-2@", "1-2@5", "1-2@5:-1", "1-2@99999999999999999999:1", "-1-2@5:1", "1-2@5:1," * 99]
)
def test_an_address_that_was_changed_is_refused(since: str, operator: Client, log: Written) -> None:
    page = operator.get(f"{PAGE}?since={since}")
    assert (page.status_code, "do not change it" in text_of(page)) == (400, True)


def test_more_places_than_partitions_are_refused(operator: Client, log: Written) -> None:
    page = operator.get(f"{PAGE}?since=0-0@1:1,2:2")
    assert (page.status_code, "follow it again" in text_of(page)) == (400, True)


def test_the_message_browser_leads_to_following_with_its_filters_and_back(
    operator: Client, log: Written
) -> None:
    assert f'formaction="{PAGE}"' in operator.get(PAGE.removesuffix("/follow")).content.decode()
    assert '/messages?key=k1"' in operator.get(f"{PAGE}?key=k1&since=0-0@1:1").content.decode()
