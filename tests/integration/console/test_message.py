"""The page of one message: body, decoders, its state on each subscription, neighbours; and what it says about
entries that cannot be read.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from broker.models import Cursor, Ledger, Schema, Subscription
from console.addresses import subscription_url
from console.messages.message import FoundMessage, key_neighbours
from console.queries.topics.topic import TopicHead
from tests.integration.console.messages import write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import BATCH_ENTRY, Shop
from tests.support.entries import chunk, encrypted
from vela.wire.entry import Compression, encode_single

ORDERS = "/t/persistent/public/default/orders"
ODD = "persistent://public/default/odd"
ODD_PAGE = "/t/persistent/public/default/odd/m"


def single(payload: bytes, sequence_id: int = 1, **more: Any) -> bytes:
    return encode_single(
        producer_name="till", sequence_id=sequence_id, publish_time_ms=1, payload=payload, **more
    )


def test_the_page_shows_everything_about_a_message(operator: Client, shop: Shop) -> None:
    spot = f"{shop.sealed.pk}:5"
    words = text_of(operator.get(f"{ORDERS}/m/{spot}"))
    assert f"Message {spot}" in words
    assert "Key customer-5" in words
    assert "region eu" in words
    assert f"object of 2 order &quot;{shop.sealed.pk}-5&quot; note &quot;&lt;b&gt;&amp;amp;&quot;" in words
    assert "Decoder Result JSON ● decoded" in words
    assert "billing ○ in flight at clerk, delivered" in words
    assert "redelivered 3 times" in words
    assert f"Older, by position {shop.sealed.pk}:4 Newer, by position {shop.sealed.pk}:6" in words
    html = operator.get(f"{ORDERS}/m/{spot}").content.decode()
    assert f"/s/billing/act/reset?to=id&amp;id={spot}&amp;start=at" in html
    assert f"/s/billing/act/skip_one?id={spot}" in html
    assert "<b>" not in html


def test_w3c_trace_headers_are_shown_as_properties(operator: Client, shop: Shop) -> None:
    parent, state = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=00f067aa0ba902b7"
    log = write_log(ODD, [single(b"traced", properties={"traceparent": parent, "tracestate": state})])
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert f"traceparent {parent}" in words
    assert f"tracestate {state}" in words


def test_links_of_a_message_fill_in_the_forms_of_acts(operator: Client, shop: Shop) -> None:
    html = operator.get(f"{ORDERS}/s/billing/act/reset?to=id&id=7:5&start=after").content.decode()
    assert re.search(r'value="id"\s+checked', html)
    assert 'value="7:5"' in html
    assert re.search(r'value="after"\s+selected', html)
    assert 'value="7:5:-1:2"' in operator.get(f"{ORDERS}/s/billing/act/skip_one?id=7:5:-1:2").content.decode()


def test_a_member_of_a_batch_says_which_one_it_is(operator: Client, shop: Shop) -> None:
    place = f"{shop.open.pk}:{BATCH_ENTRY}"
    words = text_of(operator.get(f"{ORDERS}/m/{place}:1"))
    assert f"Message {place}:1" in words
    assert "a batch of 5 messages; this is number 1, counted from 0" in words
    assert f"Older, by position {place}:0 Newer, by position {place}:2" in words
    assert "billing ● acked" in words
    assert "billing ▲ unacked" not in words
    first = text_of(operator.get(f"{ORDERS}/m/{place}"))
    assert f"Older, by position {shop.open.pk}:{BATCH_ENTRY - 1} Newer, by position {place}:1" in first
    assert "billing ○ unacked" in first
    assert f"skip_one?id={place}:-1:0" in operator.get(f"{ORDERS}/m/{place}:-1:0").content.decode()


@pytest.mark.parametrize(
    ("spot", "why"),
    [
        ("{ledger}:99", "ends before it"),
        ("987654:1", "retention has trimmed it, or it belongs to another topic"),
        ("{ledger}:2:0", "the entry is not a batch"),
        ("{open}:3:9", "its batch has the messages 0 to 4"),
        ("oops", "Write a position as ledger:entry"),
        ("1" + "0" * 30 + ":1", "Write a position as ledger:entry"),
        ("9" * 19 + ":1", "is too large"),
        ("1:2:3:4:5", "Write a position as ledger:entry"),
        ("-1:-1", "Write a position as ledger:entry"),
    ],
)
def test_the_page_of_a_missing_message_says_why_it_is_missing(
    spot: str, why: str, operator: Client, shop: Shop
) -> None:
    spot = spot.format(ledger=shop.sealed.pk, open=shop.open.pk)
    for address in (f"{ORDERS}/m/{spot}", f"{ORDERS}/m/{spot}/raw"):
        response = operator.get(address)
        assert response.status_code == 404
        assert why in text_of(response)


def test_a_viewer_sees_no_contents(looker: Client, shop: Shop) -> None:
    spot = f"{shop.sealed.pk}:5"
    html = looker.get(f"{ORDERS}/m/{spot}").content.decode()
    assert "Key, properties and body are hidden" in html
    assert "in flight" in html
    for hidden in ("customer-5", "region", "note", "act/skip_one"):
        assert hidden not in html
    assert looker.get(f"{ORDERS}/m/{spot}/raw").status_code == 403


def test_entries_that_cannot_be_opened_are_explained(operator: Client, db: None) -> None:
    log = write_log(
        ODD,
        [
            encrypted(single(b"hidden", key="open key")),
            chunk("c", 1, 1, 3, payload=b"part"),
            b"\x0e\x01garbage",
            b"",
            single(b"x", compression=Compression.NONE)[:-1] + b"y",
        ],
    )
    pages = [text_of(operator.get(f"{ODD_PAGE}/{log.spot(number)}")) for number in range(5)]
    assert "Encrypted. The producer encrypted the payload for finance-2026." in pages[0]
    assert "Key open key" in pages[0]
    assert "The entry as it is stored" in pages[0]
    assert "This is chunk 2 of 3 of a large message of 3 bytes." in pages[1]
    for page in pages[2:]:
        assert "Corrupt. The entry cannot be decoded" in page
        assert "The broker does not deliver it" in page
        assert "The entry as it is stored" in page
    assert operator.get(f"{ODD_PAGE}/{log.spot(2)}/raw").content == b"\x0e\x01garbage"


def test_a_user_who_may_not_read_payloads_is_promised_no_bytes(looker: Client, db: None) -> None:
    log = write_log(ODD, [b"\x0e\x01garbage"])
    shown = text_of(looker.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert "Corrupt. The entry cannot be decoded" in shown
    assert "as they are stored" not in shown
    assert "as it is stored" not in shown


@pytest.mark.parametrize("payload", [rb'{"a": "x\ud83d"}', rb'{"a\ud83d": 1}', rb'"\ud83d"'])
def test_half_a_character_in_json_is_marked(payload: bytes, operator: Client, db: None) -> None:
    log = write_log(ODD, [single(b"{}"), single(payload)])
    other, spot = log.spot(0), log.spot(1)
    for address in (f"m/{spot}", f"messages/compare?a={other}&b={spot}"):
        assert "[U+D83D]" in operator.get(f"{ODD_PAGE.removesuffix('m')}{address}").content.decode()


def test_a_large_body_is_shown_step_by_step(operator: Client, db: None) -> None:
    text = "0123456789" * 20_000
    log = write_log(ODD, [single(text.encode()), single(b"\xff" * 3_000_000)])
    first = operator.get(f"{ODD_PAGE}/{log.spot(0)}")
    assert "These are the first 65.5 kB of 200 kB." in text_of(first)
    assert text[:65_536] in first.content.decode()
    assert text[:65_537] not in first.content.decode()
    whole = operator.get(f"{ODD_PAGE}/{log.spot(0)}?body=text&all=1")
    assert text in whole.content.decode()
    assert "These are the first" not in text_of(whole)
    most = text_of(operator.get(f"{ODD_PAGE}/{log.spot(1)}?all=1"))
    assert "These are the first 1.0 MB of 3.0 MB. Download the rest." in most
    raw = operator.get(f"{ODD_PAGE}/{log.spot(1)}/raw")
    assert (len(raw.content), raw["Content-Type"]) == (3_000_000, "application/octet-stream")
    assert raw["Content-Disposition"] == f'attachment; filename="{log.spot(1).replace(":", "-")}.bin"'


def test_the_page_says_which_decoders_read_a_body_and_which_failed(operator: Client, db: None) -> None:
    log = write_log(ODD, [single(gzip.compress(json.dumps({"a": [1, None]}).encode())), single(b"\xff\x00")])
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert "gzip, JSON" in words
    assert "object of 1 a array of 2 0 1 1 null" in words
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(1)}"))
    assert "00000000 ff 00 ··" in words
    assert "text ✕ it is not UTF-8 at byte 0" in words
    assert "00000000 1f 8b" not in text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}?body=hex"))


def test_the_schema_of_the_topic_decodes_a_body(operator: Client, db: None) -> None:
    definition = {"type": "record", "name": "Order", "fields": [{"name": "pieces", "type": "int"}]}
    log = write_log(ODD, [single(b"\x0e")])
    Schema.objects.create(
        topic_name=ODD, version=0, type=4, name="Order", data=json.dumps(definition).encode(), properties={}
    )
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert "pieces 7" in words
    assert "Avro schema, version 0, named Order" in words


def test_the_page_leads_to_neighbours_with_the_same_key(operator: Client, db: None) -> None:
    log = write_log(
        ODD, [single(b"x", number, key="k&1" if number % 10 == 0 else "other") for number in range(31)]
    )
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(10)}"))
    assert f"Older, with the same key {log.spot(0)} all of them" in words
    assert f"Newer, with the same key {log.spot(20)} all of them" in words
    html = operator.get(f"{ODD_PAGE}/{log.spot(30)}").content.decode()
    assert "none is stored" in html
    assert f"start=id&amp;at={log.spot(30)}&amp;order=older&amp;key={quote('k&1')}" in html


def test_a_message_that_is_trimmed_while_its_neighbours_are_searched_is_not_found(
    operator: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(ODD, [single(b"x", number, key="k") for number in range(3)], ledger_entries=1)

    def trim_and_search(found: FoundMessage, head: TopicHead) -> object:
        Ledger.objects.filter(pk__lte=log.ledgers[1].pk).delete()
        return key_neighbours(found, head)

    monkeypatch.setattr("console.views.message.key_neighbours", trim_and_search)
    answer = operator.get(f"{ODD_PAGE}/{log.spot(1)}")
    assert answer.status_code == 404
    assert f"{log.spot(1)} was trimmed a moment ago." in text_of(answer)


def test_a_message_says_that_it_is_delayed_or_older_than_the_subscription(operator: Client, db: None) -> None:
    log = write_log(ODD, [single(b"x")], deliver_at_ms=4_000_000_000_000)
    subscription = Subscription.objects.create(topic=log.topic, name="late", type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=log.ledgers[0].pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert "late ○ delayed due in" in words
    assert "Not delivered before 2096-10-02 07:06:40.000" in words
    assert "The topic has no subscription" not in words


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_a_subscription_that_gets_delayed_messages_at_once_delays_none(
    kind: str, operator: Client, db: None
) -> None:
    log = write_log(ODD, [single(b"x")], deliver_at_ms=4_000_000_000_000)
    subscription = Subscription.objects.create(topic=log.topic, name="now", type=kind)
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=log.ledgers[0].pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    assert "now ○ unacked" in text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    following = text_of(operator.get(f"{subscription_url(ODD, 'now')}?part=next"))
    assert "ready" in following
    assert "delayed" not in following


def test_a_policy_that_ignores_delivery_times_delays_no_message(operator: Client, db: None) -> None:
    log = write_log(ODD, [single(b"x")], deliver_at_ms=4_000_000_000_000)
    subscription = Subscription.objects.create(topic=log.topic, name="now", type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=log.ledgers[0].pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    namespace = log.topic.namespace
    namespace.policies = {"delayed_delivery": False}
    namespace.save()
    assert "now ○ unacked" in text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert "ready" in text_of(operator.get(f"{subscription_url(ODD, 'now')}?part=next"))
    log.topic.policies = {"delayed_delivery": True}
    log.topic.save()
    assert "now ○ delayed" in text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))


def test_times_that_no_clock_shows_are_written_as_numbers(operator: Client, db: None) -> None:
    """A client may send any 64-bit number as a time."""
    far_ms = 2**63 - 1
    log = write_log(
        ODD,
        [
            encode_single(
                producer_name="till",
                sequence_id=1,
                publish_time_ms=far_ms,
                event_time_ms=far_ms,
                payload=b"x",
            )
        ],
        deliver_at_ms=far_ms,
    )
    subscription = Subscription.objects.create(topic=log.topic, name="billing", type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=log.ledgers[0].pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(0)}"))
    assert words.count(f"{far_ms} (not a time)") >= 3  # published, event, deliver at
    topic_page = ODD_PAGE.removesuffix("/m")
    found = text_of(operator.get(f"{topic_page}/messages?sub=billing"))
    assert f"published {far_ms} (not a time)" in found
    assert f"due {far_ms} (not a time)" in found
    assert operator.get(f"{topic_page}/s/billing").status_code == 200
    api = "/api/v1/topics/persistent/public/default/odd/messages"
    assert operator.get(api).json()["messages"][0]["publish_ms"] == far_ms
    assert operator.get(f"{api}/{log.spot(0)}").json()["event_ms"] == far_ms
    line = b"".join(operator.get(f"{topic_page}/messages/export").streaming_content)  # type: ignore[attr-defined]
    assert json.loads(line.splitlines()[0])["deliver_at_ms"] == far_ms


def test_the_page_says_when_it_shows_only_the_first_subscriptions(
    operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Subscription.objects.create(topic=shop.topic, name="audit", type="Shared")
    Cursor.objects.create(
        subscription=audit,
        mark_delete_ledger=shop.sealed.pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    spot = f"{shop.sealed.pk}:5"
    api = f"/api/v1/topics/persistent/public/default/orders/messages/{spot}"
    assert "The topic has more subscriptions" not in text_of(operator.get(f"{ORDERS}/m/{spot}"))
    everything = operator.get(api).json()
    assert everything["states_are_all"] is True
    assert [state["subscription"] for state in everything["states"]] == ["audit", "billing"]
    monkeypatch.setattr("console.messages.message.MOST_CURSORS", 1)
    words = text_of(operator.get(f"{ORDERS}/m/{spot}"))
    assert "The topic has more subscriptions: the first 1 by name are shown." in words
    cut = operator.get(api).json()
    assert cut["states_are_all"] is False
    assert [state["subscription"] for state in cut["states"]] == ["audit"]


def test_entries_whose_key_cannot_be_read_are_counted_beside_the_same_key(operator: Client, db: None) -> None:
    log = write_log(ODD, [b"\x0e\x01garbage", single(b"x", key="tea"), single(b"y", key="milk")])
    words = text_of(operator.get(f"{ODD_PAGE}/{log.spot(1)}"))
    assert "Newer, with the same key none is stored" in words
    assert "Older, with the same key none was found; 1 entry could not be searched" in words
