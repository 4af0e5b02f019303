"""A subscription's page: exact numbers, holes in the cursor, pending messages of consumers, the next messages."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client

from broker.models import (
    ConsumerSession,
    Cursor,
    CursorChunk,
    Ledger,
    PendingAck,
    SubscriptionState,
    SubscriptionSummary,
    TopicSummary,
)
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop
from vela.wire.entry import Compression, encode_single, with_checksum
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

BILLING = "/t/persistent/public/default/orders/s/billing"


def part(client: Client, name: str) -> str:
    response = client.get(f"{BILLING}?part={name}")
    assert response.status_code == 200
    return text_of(response)


def test_the_backlog_is_counted_not_reported(operator: Client, shop: Shop) -> None:
    SubscriptionSummary.objects.update(acked_messages=1)
    TopicSummary.objects.update(messages_in=1000)
    words = part(operator, "numbers")
    assert (
        "Shared subscription on orders, 1 consumer. Consumers ack faster than messages arrive."
        f" {shop.backlog} left"
    ) in words
    assert "4 min to go" in words.replace("\u202f", " ")
    assert part(operator, "standing").split()[:3] == ["●", "draining", "began"]
    assert "999" not in words


def test_a_badge_has_the_state_s_word_and_the_tone_of_the_cause_beside_it(
    operator: Client, shop: Shop
) -> None:
    SubscriptionSummary.objects.update(state=SubscriptionState.WATCHING)
    assert part(operator, "why").split()[1:3] == ["✕", "critical"]
    assert part(operator, "standing").split()[:3] == ["✕", "watching", "began"]
    SubscriptionSummary.objects.update(state=SubscriptionState.FALLING_BEHIND)
    assert part(operator, "standing").split()[:3] == ["▲", "falling", "behind"]
    SubscriptionSummary.objects.update(state=SubscriptionState.WATCHING, consumers=2)
    ConsumerSession.objects.update(permits=10, blocked=False, last_delivery_ms=shop.now_ms)
    assert part(operator, "why").split()[1:3] == ["▲", "warning"]
    assert part(operator, "standing").split()[:2] == ["▲", "watching"]
    PendingAck.objects.update(redelivery_count=0)
    assert part(operator, "why").split()[1:3] == ["●", "fine"]
    assert part(operator, "standing").split()[:2] == ["○", "watching"]


def test_an_empty_open_ledger_counts_what_came_before(operator: Client, shop: Shop) -> None:
    Ledger.objects.filter(pk=shop.open.pk).update(
        state=Ledger.State.SEALED, entries=6, messages=10, first_append_ms=1, last_append_ms=2
    )
    Ledger.objects.create(
        topic=shop.topic,
        segment=shop.open.segment,
        entries_before=16,
        messages_before=20,
        opened_ms=shop.now_ms,
    )
    assert f"{shop.backlog} left" in part(operator, "numbers")


def test_the_cursor_is_shown_with_its_holes(operator: Client, shop: Shop) -> None:
    words = part(operator, "cursor")
    assert f"{shop.sealed.pk}:4" in words
    assert f"Read position {shop.sealed.pk}:6" in words
    assert "1 entry in 1 range and 1 batch in part" in words
    assert f"{shop.sealed.pk}:7 {shop.sealed.pk}:7 1" in words
    assert "acked 2 in flight 1 ready 9" in words


def test_the_title_of_the_map_counts_one_entry_in_the_singular(operator: Client, shop: Shop) -> None:
    def title() -> str:
        html = operator.get(f"{BILLING}?part=cursor").content.decode()
        return html.partition('<title id="map-title">')[2].partition(";")[0]

    assert title() == "2 entries acked, 1 in flight, 9 ready"
    CursorChunk.objects.all().delete()
    assert title() == "1 entry acked, 1 in flight, 10 ready"


def test_a_part_of_the_map_leads_to_its_messages_and_to_a_reset(
    operator: Client, looker: Client, shop: Shop
) -> None:
    html = operator.get(f"{BILLING}?part=cursor").content.decode()
    spot = f"{shop.sealed.pk}:5"
    words = text_of(operator.get(f"{BILLING}?part=cursor"))
    assert f"{spot} {spot} 0 clerk 1 0 Read · Reset here" in words
    assert f"<title>{spot} to {spot}: 0 acked, 0 ready, 1 in flight at clerk" in html
    # Each part is a link in the strip and in the table, and both work without a script.
    browse = (
        f"/t/persistent/public/default/orders/messages?start=id&amp;at={spot}&amp;order=newer&amp;sub=billing"
    )
    assert html.count(f'href="{browse}"') == 2
    assert spot in text_of(operator.get(browse.replace("&amp;", "&")))
    reset = f"{BILLING}/act/reset?to=id&amp;id={spot}&amp;start=at"
    assert f'href="{reset}"' in html
    assert f'value="{spot}"' in operator.get(reset.replace("&amp;", "&")).content.decode()
    assert "/act/reset" not in looker.get(f"{BILLING}?part=cursor").content.decode()


def test_in_flight_parts_have_the_colour_of_their_consumer(operator: Client, shop: Shop) -> None:
    for number in range(7):
        PendingAck.objects.create(
            delivery_id=10 + number,
            owner_epoch=1,
            topic_id=shop.topic.pk,
            subscription_id=shop.billing.pk,
            consumer_key=10 + number,
            consumer_name=f"<clerk {number}>",
            ledger_id=shop.open.pk if number else shop.sealed.pk,
            first_entry=number - 1 if number else 6,
            last_entry=number - 1 if number else 6,
            messages=1,
            delivered_ms=shop.now_ms,
            redelivery_count=0,
        )
    page = operator.get(f"{BILLING}?part=cursor")
    html = page.content.decode()
    assert [int(each) for each in re.findall(r'<pattern id="hatch-(\d)"', html)] == [1, 2, 3, 4, 5, 6, 0]
    assert "clerk 1 &lt;clerk 0&gt; 1" in text_of(page)
    assert "other consumers 2" in text_of(page)
    assert "<clerk" not in html


def test_the_map_says_that_it_leaves_out_entries_in_flight(
    operator: Client, monkeypatch: pytest.MonkeyPatch, shop: Shop
) -> None:
    assert "in flight 1 ready" in part(operator, "cursor")
    monkeypatch.setattr("console.views.subscription.PENDING_MAPPED", 1)
    assert "in flight 1 counted up to a limit; there are more ready" in part(operator, "cursor")


def test_errors_are_shown_with_their_counts(operator: Client, shop: Shop) -> None:
    assert "4 × messages that consumers discarded: CHECKSUM_MISMATCH" in part(operator, "numbers")
    SubscriptionSummary.objects.update(problems={})
    assert "went wrong" not in part(operator, "numbers")


def test_consumers_say_what_is_wrong_in_words(operator: Client, shop: Shop) -> None:
    words = part(operator, "consumers")
    assert "clerk 10.0.0.9:5000 ✕ blocked 0 ▲ asks for none 1 pending messages" in words
    ConsumerSession.objects.update(last_delivery_ms=shop.now_ms - 9000)
    assert "✕ blocked ✕ not reading" in part(operator, "consumers")
    ConsumerSession.objects.all().delete()
    assert "No consumer is connected" in part(operator, "consumers")


def test_pending_acks_name_their_consumer_and_their_redeliveries(operator: Client, shop: Shop) -> None:
    words = part(operator, "pending")
    assert f"{shop.sealed.pk}:5 1 clerk" in words
    assert "3 ▲ keeps coming back decided by the client" in words


def test_the_next_messages_are_those_not_acked(operator: Client, shop: Shop) -> None:
    words = part(operator, "next")
    first, second = shop.sealed.pk, shop.open.pk
    assert f"{first}:5 {{&quot;order&quot;: &quot;{first}-5&quot;" in words
    assert "in flight clerk" in words
    assert f"{first}:4 {{" not in words
    assert f"{first}:7 {{" not in words
    assert [number for number in range(5) if f"{second}:3:{number} member {number}" in words] == [0, 2, 4]
    assert "key customer-5 region eu" in words
    # What a producer wrote is text, never markup.
    assert "<b>" not in operator.get(f"{BILLING}?part=next").content.decode()


def test_reading_the_page_moves_no_cursor(operator: Client, shop: Shop) -> None:
    before = Cursor.objects.values().get()
    operator.get(BILLING)
    assert Cursor.objects.values().get() == before


def test_a_viewer_sees_no_payload_and_no_act(looker: Client, shop: Shop) -> None:
    html = looker.get(BILLING).content.decode()
    assert "Payloads are hidden" in html
    assert "customer-5" not in html
    assert "/act/rewind" not in html


def entry(payload: bytes, compression: Compression = Compression.NONE) -> bytes:
    return encode_single(
        producer_name="p", sequence_id=1, publish_time_ms=1, payload=payload, compression=compression
    )


def a_chunk() -> bytes:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, chunk_id=1, num_chunks_from_msg=3
    ).SerializeToString()
    return with_checksum(len(metadata).to_bytes(4, "big") + metadata + b"piece")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0e\x01garbage", "cannot be decoded"),
        (b"", "cannot be decoded"),
        (entry(b"a" * 3_000_000, Compression.ZSTD), "too large to show: 3.0 MB when decompressed"),
        (a_chunk(), "one chunk of a message: chunk 1 of 3"),
    ],
)
def test_an_entry_that_is_not_taken_apart_says_why(
    data: bytes, words: str, operator: Client, shop: Shop
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE vela_entry_{shop.sealed.segment_id} SET data = %s WHERE ledger_id = %s AND entry_id = 6",
            [data, shop.sealed.pk],
        )
    shown = part(operator, "next")
    assert f"{shop.sealed.pk}:6 ▲ {words}" in shown
    assert f"{shop.sealed.pk}:8 {{" in shown
    counts = operator.get(
        "/api/v1/topics/persistent/public/default/orders/subscriptions/billing/backlog"
    ).json()
    is_damaged, is_large = "decoded" in words, "too large" in words
    assert (counts["corrupt"], counts["too_large"]) == (int(is_damaged), int(is_large))


def test_a_large_entry_is_not_read_whole(
    operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.messages.peek.PEEK_BYTES", 90)
    assert "too large to show" in part(operator, "next")


def test_numbers_that_were_not_reported_are_dashes(operator: Client, shop: Shop) -> None:
    SubscriptionSummary.objects.all().delete()
    ConsumerSession.objects.all().delete()
    words = text_of(operator.get(BILLING))
    assert "– consumers" in words
    assert "In flight –" in words
    assert f"{shop.backlog} left" in words


def fall_behind(shop: Shop) -> None:
    """Let one consumer, which is no longer new, ack 2 of 3 messages a second."""
    SubscriptionSummary.objects.update(
        state=SubscriptionState.FALLING_BEHIND, drain_s=None, message_rate_acked=2.0
    )
    TopicSummary.objects.update(message_rate_in=3.0)
    ConsumerSession.objects.update(connected_ms=shop.now_ms - 60_000)


def test_a_slider_estimates_another_number_of_consumers(operator: Client, shop: Shop) -> None:
    fall_behind(shop)
    words = part(operator, "what_if")
    assert "With 2 consumers: about 12 s to go." in words
    assert "1 consumer works now and acks 2.0/s" in words
    page = operator.get(f"{BILLING}?with=1")
    assert "With 1 consumer: the backlog grows by 1.0/s." in text_of(page)
    html = page.content.decode()
    assert 'name="with" type="number" min="1" max="10" value="1"' in re.sub(r"\s+", " ", html)
    assert "With 3 consumers: about 4 s to go." in part(operator, "what_if&with=3")
    for nonsense in ("x", "-1", "9" * 30, ""):
        assert "With 2 consumers" in part(operator, f"what_if&with={nonsense}")


def test_where_there_is_no_estimate_the_page_says_why(operator: Client, shop: Shop) -> None:
    assert "No estimate yet: a consumer connected less than 20 s ago" in part(operator, "what_if")
    fall_behind(shop)
    SubscriptionSummary.objects.update(state=SubscriptionState.STUCK, message_rate_acked=0.0)
    assert "No estimate: hardly anything is acked" in part(operator, "what_if")
    ConsumerSession.objects.all().delete()
    assert "No estimate: no consumer is connected" in part(operator, "what_if")
    SubscriptionSummary.objects.update(state=SubscriptionState.KEEPING_UP)
    assert part(operator, "what_if").strip() == ""
