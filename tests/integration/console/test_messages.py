"""The message browser: what it finds, what it refuses, and how it says how far it has looked."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, cast
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.signals import request_finished
from django.db import close_old_connections
from django.http import StreamingHttpResponse
from django.test import AsyncRequestFactory, Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.models import Cursor, CursorChunk, Subscription, Topic
from broker.storage.cursors.chunk_codec import encode_ack_sets
from console.messages import reader
from console.messages.asked import Asked, AskedInvalid, read_spot
from console.messages.browse import browse
from console.messages.export import export
from console.messages.filters import Filters, matches
from console.messages.form import filters_of
from console.messages.lanes import lanes_of
from console.messages.scan import PAGE_BOUNDS
from console.queries.topics.topic import topic_head
from console.views.messages.export import export_messages
from tests.integration.console.messages import Written, write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop
from tests.support.entries import chunk, encrypted
from vela.wire.entry import (
    Compression,
    Message,
    OutgoingMessage,
    decode_messages,
    encode_batch,
    encode_single,
)

ORDERS = "/t/persistent/public/default/orders"
MIXED = "persistent://public/default/mixed"
MIXED_PAGE = "/t/persistent/public/default/mixed/messages"


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


def batch(numbers: range, **more: Any) -> bytes:
    members = [
        OutgoingMessage(
            payload=json.dumps({"n": number}).encode(), key=f"k{number % 3}", properties={"n": str(number)}
        )
        for number in numbers
    ]
    return encode_batch(members, producer_name="p", sequence_id=numbers[0], publish_time_ms=1, **more)


def spots(client: Client, query: str = "", page: str = MIXED_PAGE) -> list[str]:
    """Return the positions of the messages that the page lists, in its order."""
    response = client.get(f"{page}?{query}")
    assert response.status_code == 200, text_of(response)[:3000]
    return re.findall(r"data-message\s+href=\"[^\"]*/m/([0-9:]+)\"", response.content.decode())


@pytest.fixture
def mixed(db: None) -> Written:
    """Two ledgers: singles, batches of each compression, a binary key, and entries that cannot be opened."""
    sealed = encrypted(single(7, key="secret-keeper", properties={"kind": "sealed"}))
    return write_log(
        MIXED,
        [
            single(0, key="k0", properties={"region": "eu"}),
            single(1, key="k1", properties={"region": "us"}),
            batch(range(2, 6)),
            batch(range(6, 10), compression=Compression.ZSTD),
            single(10, key="/+8=", key_b64=True),
            sealed,
            chunk("c", 1, 0, 3, payload=b"part of it"),
            b"\x0e\x01garbage",
            single(11, payload="käse \u202e".encode()),
            single(12, key="k0", ordering_key=b"another"),
        ],
        ledger_entries=6,
    )


def test_the_newest_come_first_and_the_page_says_how_far_it_looked(operator: Client, mixed: Written) -> None:
    found = spots(operator)
    assert found[0] == mixed.spot(9)
    assert found[-1] == mixed.spot(0)
    assert len(found) == 8 + 8  # the batches have four members each, and three entries cannot be opened
    words = text_of(operator.get(MIXED_PAGE))
    assert "Looked at 10 of 10 entries. That is all of them." in words
    assert "▲ encrypted by the producer" in words
    assert "▲ one chunk of a message: chunk 0 of 3" in words
    assert "▲ cannot be decoded" in words
    assert spots(operator, "start=oldest") == found[::-1]


def test_a_page_ends_inside_a_batch_and_the_next_one_continues_there(
    operator: Client, mixed: Written
) -> None:
    everything = spots(operator, "start=oldest")
    found: list[str] = []
    query = "start=oldest&limit=3"
    for _ in range(20):
        page = operator.get(f"{MIXED_PAGE}?{query}")
        found += re.findall(r"data-message\s+href=\"[^\"]*/m/([0-9:]+)\"", page.content.decode())
        following = re.search(r'rel="next" href="\?([^"]*)"', page.content.decode())
        if following is None:
            break
        assert "Stopped at the limit of 3 messages." in text_of(page)
        query = following[1].replace("&amp;", "&")
    assert found == everything


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("key=k1", ["3:1", "2:2", "1"]),
        ("key=k0", ["9", "3:3", "3:0", "2:1", "0"]),
        ("key=" + quote("/+8="), ["4"]),
        ("prop=region=eu", ["0"]),
        ("prop=region", ["1", "0"]),
        ("prop=n=7", ["3:1"]),
        ("path=n&op=%3C&value=3", ["2:0", "1", "0"]),
        ("path=even&value=true", ["9", "4", "0"]),
        ("path=even", ["9", "4", "1", "0"]),
        ("text=" + quote("käse"), ["8"]),
        ("key=secret-keeper", ["5"]),
        ("prop=kind=sealed", ["5"]),
        ("key=nobody", []),
    ],
)
def test_filters_choose_messages(query: str, numbers: list[str], operator: Client, mixed: Written) -> None:
    expected = [
        mixed.spot(int(entry)) + (f":{index}" if index else "")
        for entry, _, index in (number.partition(":") for number in numbers)
    ]
    assert spots(operator, query) == expected


def test_entries_that_cannot_be_searched_are_counted(operator: Client, mixed: Written) -> None:
    words = text_of(operator.get(f"{MIXED_PAGE}?text=nowhere"))
    assert "0 messages match. 3 entries could not be searched: 1 chunk, 1 corrupt, 1 encrypted." in words
    assert "No message matches." in words
    assert "By key hash: looked at 10 of 10 entries" in text_of(operator.get(f"{MIXED_PAGE}?key=k0"))


def test_a_search_that_stops_early_never_says_that_there_is_nothing(
    operator: Client, mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "__defaults__", (replace(PAGE_BOUNDS, entries=4),))
    page = operator.get(f"{MIXED_PAGE}?text=nowhere&start=oldest")
    words = text_of(page)
    assert "No match so far: the search stopped before it had seen everything." in words
    assert "Stopped after opening 4 entries; there may be more." in words
    assert "No message" not in words
    assert f"after={quote(mixed.spot(3))}%40" in page.content.decode()


def test_a_search_starts_at_a_position_or_a_time(operator: Client, mixed: Written) -> None:
    third = mixed.spot(3)
    assert spots(operator, f"start=id&at={third}:2")[:2] == [f"{third}:2", f"{third}:3"]
    assert spots(operator, f"start=id&at={third}:-1:2&order=older")[:3] == [
        f"{third}:2",
        f"{third}:1",
        f"{third}:0",
    ]
    assert spots(operator, "start=time&at=2023-11-14T22:13:28Z") == [mixed.spot(8), mixed.spot(9)]
    assert spots(operator, "start=time&at=2023-11-14 22:13:28&order=older")[0] == mixed.spot(8)
    assert spots(operator, "start=time&at=2100-01-01") == []
    words = text_of(operator.get(f"{MIXED_PAGE}?start=time&at=2100-01-01"))
    assert "No message is stored there in this direction." in words


def test_a_search_lists_the_next_messages_and_the_holes_of_a_subscription(
    operator: Client, mixed: Written
) -> None:
    first, second = mixed.ledgers
    subscription = Subscription.objects.create(topic=mixed.topic, name="billing", type="Shared")
    cursor = Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=first.pk,
        mark_delete_entry=0,
        acked_messages=1,
        acked_entries=1,
        acked_bytes=1,
    )
    CursorChunk.objects.create(
        cursor=cursor,
        ledger_id=first.pk,
        chunk=0,
        bits=bytes([0b10000]),
        ack_sets=encode_ack_sets({2: 0b1001}),
    )
    holes = [mixed.spot(1), f"{mixed.spot(2)}:0", f"{mixed.spot(2)}:3"]
    holes += [f"{mixed.spot(3)}:{index}" for index in range(4)]
    assert spots(operator, "start=holes&sub=billing") == holes
    assert spots(operator, "start=holes&sub=billing&order=older") == holes[::-1]
    following = spots(operator, "start=next&sub=billing")
    assert following[: len(holes) + 1] == [*holes, mixed.spot(5)]
    words = text_of(operator.get(f"{MIXED_PAGE}?start=oldest&sub=billing"))
    assert "● acked" in words
    assert "▲ a hole: later messages are acked" in words
    assert f"{second.pk}:3" in following[-1]


def test_a_subscription_that_has_acked_everything_has_no_next_message(
    operator: Client, mixed: Written
) -> None:
    subscription = Subscription.objects.create(topic=mixed.topic, name="billing", type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=mixed.ledgers[-1].pk,
        mark_delete_entry=3,
        acked_messages=16,
        acked_entries=10,
        acked_bytes=1,
    )
    words = text_of(operator.get(f"{MIXED_PAGE}?start=next&sub=billing"))
    assert "Nothing is unacked on this subscription." in words
    assert "This subscription has no holes." in text_of(operator.get(f"{MIXED_PAGE}?start=holes&sub=billing"))
    assert "No message matches." in text_of(operator.get(f"{MIXED_PAGE}?start=next&sub=billing&text=x"))
    assert "No message is stored" not in words


def test_a_search_says_how_many_messages_were_trimmed_meanwhile(
    operator: Client, mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = iter([reader.Piece(entries=(), steps=(), gone=10)])
    monkeypatch.setattr(reader.LaneReader, "next_piece", lambda self: next(gone, None))
    words = text_of(operator.get(MIXED_PAGE))
    assert "were trimmed or moved meanwhile" in words
    assert "No message is stored" not in words


def test_messages_show_their_state_on_a_subscription(operator: Client, shop: Shop) -> None:
    words = text_of(operator.get(f"{ORDERS}/messages?start=oldest&sub=billing"))
    assert "▲ a hole: later messages are acked" in words
    assert "in flight at clerk, delivered" in words
    assert "redelivered 3 times" in words


def test_partitions_are_merged_by_the_time_at_which_they_were_stored(operator: Client, db: None) -> None:
    parent = Topic.objects.create(
        namespace=write_log(f"{MIXED}-other", [single(1)]).topic.namespace, name=MIXED, partitions=2
    )
    logs = [
        write_log(
            f"{MIXED}-partition-{number}",
            [single(index, key=f"k{index % 4}") for index in range(number, 20, 2)],
            begin_ms=1_700_000_000_000 + number * 500,
            ledger_entries=3,
            parent=parent,
        )
        for number in range(2)
    ]
    Topic.objects.filter(pk=logs[0].topic.pk).update(partition=0)
    Topic.objects.filter(pk=logs[1].topic.pk).update(partition=1)
    expected = [logs[index % 2].spot(index // 2) for index in range(20)]
    assert spots(operator, "start=oldest") == expected
    found: list[str] = []
    query = "limit=3"
    while query:
        page = operator.get(f"{MIXED_PAGE}?{query}")
        found += re.findall(r"data-message\s+href=\"[^\"]*/m/([0-9:]+)\"", page.content.decode())
        following = re.search(r'rel="next" href="\?([^"]*)"', page.content.decode())
        query = following[1].replace("&amp;", "&") if following else ""
    assert found == expected[::-1]
    assert spots(operator, "start=oldest&partition=1") == expected[1::2]
    assert spots(operator, "start=oldest&key=k2") == expected[2::4]
    assert spots(operator, f"start=id&at={expected[7]}") == expected[7:]
    page = operator.get(f"{MIXED_PAGE}?partition=9")
    assert (page.status_code, "has the partitions 0 to 1" in text_of(page)) == (400, True)
    redirected = operator.get(f"/t/persistent/public/default/mixed/m/{expected[7]}")
    assert redirected["Location"] == f"/t/persistent/public/default/mixed-partition-1/m/{expected[7]}"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("start=nowhere", "Start: Select a valid choice"),
        ("start=time", "Give the time to start at."),
        ("start=time&at=yesterday", "Write the time as 2026-03-01"),
        ("start=id&at=oops", "Write a position as ledger:entry"),
        ("start=id&at=" + "9" * 19 + ":1", "is too large"),
        ("start=id&at=999999:1", "Ledger 999999 is not stored here"),
        ("start=next", "Name the subscription."),
        ("start=holes&sub=nobody", "has no subscription with this name"),
        ("start=newest&order=newer", "Nothing is newer than the newest"),
        ("start=oldest&order=older", "Nothing is older than the oldest"),
        ("limit=" + "1" + "0" * 30, "less than or equal to 500"),
        ("limit=0", "greater than or equal to 1"),
        ("partition=1", "This topic is not partitioned"),
        ("path=a..b", "cannot read"),
        ("path=[", "cannot read"),
        ("path=a&op=%3D", "Give the value to compare with"),
        ("value=3", "Say where the value is"),
        ("prop==x", "Write a property as name=value"),
        ("after=junk", "Take “after” from the link on the previous page"),
        ("after=999999:1@5", "no longer stored: start again"),
        ("column=n", "Write $.order.id"),
        ("column=key&" + "&".join(f"column=%24.a{number}" for number in range(8)), "at most 8 columns"),
    ],
)
def test_the_page_says_why_a_search_is_not_possible(
    query: str, words: str, operator: Client, mixed: Written
) -> None:
    page = operator.get(f"{MIXED_PAGE}?{query}")
    assert page.status_code == 400
    assert words in text_of(page)
    assert operator.get(f"{MIXED_PAGE}/export?{query}").status_code == 400


def markup(page: Any) -> str:
    """The page without its random tokens, which may contain any two letters."""
    return re.sub(r"csrf\w+\W+value=\"[^\"]*", "", page.content.decode())


def test_a_viewer_sees_metadata_and_searches_in_nothing_else(looker: Client, mixed: Written) -> None:
    html = markup(looker.get(MIXED_PAGE))
    assert "Keys, properties and payloads are hidden" in html
    assert mixed.spot(9) in html
    for hidden in ("k0", "region", "&quot;n&quot;", "käse", "secret-keeper"):
        assert hidden not in html
    for query in ("key=k0", "prop=region", "path=n", "text=a"):
        page = looker.get(f"{MIXED_PAGE}?{query}")
        assert (page.status_code, "need the reader role" in text_of(page)) == (400, True)
        assert looker.get(f"{MIXED_PAGE}/export?{query}").status_code == 400
    lines = exported(looker, "")
    assert "payload" not in lines[0]
    assert "key" not in lines[0]
    assert lines[0]["id"] == mixed.spot(9)


def exported(client: Client, query: str) -> list[dict[str, Any]]:
    response = client.get(f"{MIXED_PAGE}/export?{query}")
    assert response.status_code == 200
    assert "attachment" in response["Content-Disposition"]
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]  # type: ignore[attr-defined]


def test_the_export_has_what_matches_and_says_why_it_ends(operator: Client, mixed: Written) -> None:
    *lines, end = exported(operator, "key=k1&start=oldest&limit=1")
    assert [line["id"] for line in lines] == [mixed.spot(1), f"{mixed.spot(2)}:2", f"{mixed.spot(3)}:1"]
    assert lines[0] | {"append_ms": 0} == {
        "id": mixed.spot(1),
        "topic": MIXED,
        "append_ms": 0,
        "publish_ms": 1_700_000_000_000,
        "deliver_at_ms": 0,
        "producer": "p",
        "size_bytes": 23,
        "trouble": "",
        "key": "k1",
        "key_is_base64": False,
        "ordering_key": None,
        "properties": {"region": "us"},
        "event_ms": 0,
        "sequence_id": 1,
        "payload": '{"n": 1, "even": false}',
        "payload_base64": None,
    }
    assert end == {"end": {"stopped_by": "end", "matched": 3, "looked_at_entries": 10, "after": None}}


def test_the_export_stops_at_its_cap(
    operator: Client, mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.messages.export.MOST_EXPORTED", 2)
    *lines, end = exported(operator, "start=oldest")
    assert len(lines) == 2
    assert end["end"]["stopped_by"] == "limit"
    assert (
        exported(operator, f"start=oldest&after={quote(end['end']['after'])}")[0]["id"]
        == f"{mixed.spot(2)}:0"
    )


def test_the_export_stops_at_its_size(
    operator: Client, mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.messages.export.MOST_WRITTEN_BYTES", 300)
    *lines, end = exported(operator, "start=oldest")
    assert 0 < len(lines) < 5
    assert end["end"]["stopped_by"] == "size"
    assert exported(operator, f"start=oldest&after={quote(end['end']['after'])}")[0]["id"] == mixed.spot(
        len(lines)
    )


def test_an_export_that_ends_at_a_cursor_s_limit_names_no_place_to_continue_from(
    operator: Client, mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription = Subscription.objects.create(topic=mixed.topic, name="billing", type="Shared")
    first = mixed.ledgers[0].pk
    cursor = Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=first,
        mark_delete_entry=0,
        acked_messages=1,
        acked_entries=1,
        acked_bytes=1,
    )
    CursorChunk.objects.create(cursor=cursor, ledger_id=first, chunk=0, bits=bytes([0b10000]), ack_sets=b"")
    monkeypatch.setattr("console.queries.cursor.CHUNKS_READ", 0)
    *_lines, end = exported(operator, "start=next&sub=billing")
    assert (end["end"]["stopped_by"], end["end"]["after"]) == ("cursor", None)


def leave(response: Any) -> None:
    """Close a response as a server does when the browser has left, but keep the test's database connection."""
    request_finished.disconnect(close_old_connections)
    response.close()
    request_finished.connect(close_old_connections)


def test_a_process_sends_two_exports_at_a_time(operator: Client, mixed: Written) -> None:
    address = f"{MIXED_PAGE}/export"
    sent = [operator.get(address) for _ in range(2)]
    refused = operator.get(address)
    assert (refused.status_code, refused["Retry-After"]) == (503, "10")
    assert (
        refused.content
        == b"This console is sending 2 exports already. Try again when one of them has ended.\n"
    )
    assert operator.get(MIXED_PAGE).status_code == 200
    leave(sent[0])  # the browser leaves before the first piece
    assert len(exported(operator, "")) > 1
    b"".join(sent[1].streaming_content)  # type: ignore[attr-defined]
    assert operator.get(f"{address}?start=nowhere").status_code == 400
    again = [operator.get(address) for _ in range(2)]
    assert [each.status_code for each in again] == [200, 200]
    for each in again:
        leave(each)


def test_an_export_frees_its_place_on_an_event_loop_too(mixed: Written, operator: Client) -> None:
    async def read(response: StreamingHttpResponse) -> list[bytes]:
        return [piece async for piece in cast("AsyncIterator[bytes]", response.streaming_content)]

    for _ in range(3):
        request = AsyncRequestFactory().get(f"{MIXED_PAGE}/export")
        request.user = User.objects.get(username="ada")
        response = export_messages(request, topic=MIXED)
        assert isinstance(response, StreamingHttpResponse)
        assert response.is_async
        pieces = async_to_sync(read)(response)
        assert json.loads(pieces[-1].splitlines()[-1])["end"]["stopped_by"] == "end"
        leave(response)


def test_an_export_that_finds_nothing_can_be_stopped_in_between(
    mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.messages.scan.PAUSE_S", 0.0)
    head = topic_head(MIXED)
    assert head is not None
    *pieces, _ = export(head, Asked(filters=Filters(text="nowhere")), form="ndjson", with_contents=True)
    assert pieces == [b""] * 10


def test_a_search_through_trimmed_ranges_looks_at_the_clock(
    mixed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = iter([reader.Piece(entries=(), steps=(), gone=1)] * 100)
    monkeypatch.setattr(reader.LaneReader, "next_piece", lambda self: next(gone, None))
    head = topic_head(MIXED)
    assert head is not None
    looked = browse(head, Asked(), replace(PAGE_BOUNDS, seconds=0)).looked
    assert (looked.stopped_by, looked.gone) == ("time", 1)


def test_the_export_as_csv_runs_no_formula(operator: Client, db: None) -> None:
    write_log(MIXED, [single(0, payload=b"=1+1", key="@SUM"), single(1, payload=b"\xff\x00")])
    response = operator.get(f"{MIXED_PAGE}/export?format=csv&start=oldest")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    heading, first, second, end = csv.reader(io.StringIO(text))
    assert dict(zip(heading, first, strict=True))["payload"] == "'=1+1"
    assert dict(zip(heading, first, strict=True))["key"] == "'@SUM"
    assert dict(zip(heading, second, strict=True))["payload_base64"] == "/wA="
    assert end == ["# stopped_by end, matched 2, looked_at_entries 2, after None"]


def test_chosen_columns_take_the_place_of_payload_key_and_properties(
    operator: Client, mixed: Written
) -> None:
    query = "start=oldest&limit=7&column=%24.n&column=key&column=property:region"
    page = operator.get(f"{MIXED_PAGE}?{query}")
    shown = text_of(page)
    assert "Position Stored (UTC) $.n key property:region Size" in shown
    assert re.search(r"\$\.n 0 key k0 property:region eu 2\d B", shown)
    assert re.search(r"\$\.n 2 key k2 property:region – ", shown)
    html = page.content.decode()
    assert re.findall(r'<input name="column"[^>]*value="([^"]*)"', html) == [
        "$.n",
        "key",
        "property:region",
        "",
    ]
    assert '<option value="$.even">' in html
    assert '<option value="property:region">' in html
    following = re.search(r'rel="next" href="\?([^"]*)"', html)
    assert following is not None
    assert following[1].count("column=") == 3
    assert "▲ encrypted by the producer" in text_of(operator.get(f"{MIXED_PAGE}?column=%24.n"))
    followed = text_of(operator.get(f"{MIXED_PAGE}/follow?{query}"))
    assert "$.n 12 key k0 property:region – " in followed


def test_chosen_columns_show_a_viewer_nothing(looker: Client, mixed: Written) -> None:
    html = markup(looker.get(f"{MIXED_PAGE}?column=key&column=%24.n"))
    assert "Key and properties" in html
    assert "k0" not in html
    assert "columns" not in exported(looker, "column=key&column=%24.n")[0]


def test_the_export_has_the_chosen_columns(operator: Client, mixed: Written) -> None:
    query = "start=oldest&column=%24.n&column=property:region&column=key"
    lines = exported(operator, query)
    assert lines[0]["columns"] == {"$.n": 0, "property:region": "eu"}
    assert lines[2]["columns"] == {"$.n": 2}
    response = operator.get(f"{MIXED_PAGE}/export?{query}&format=csv")
    heading, first, *_ = csv.reader(io.StringIO(b"".join(response.streaming_content).decode()))  # type: ignore[attr-defined]
    assert heading.count("key") == 1
    assert dict(zip(heading, first, strict=True)).items() >= {"$.n": "0", "property:region": "eu"}.items()


def test_half_a_character_in_json_breaks_neither_list_nor_export(operator: Client, db: None) -> None:
    write_log(MIXED, [single(1, payload=rb'{"a": "x\ud83d", "b\ud83d": 1}')])
    assert "[U+D83D]" in operator.get(f"{MIXED_PAGE}?column=%24.a").content.decode()
    assert exported(operator, "column=%24.a")[0]["columns"] == {"$.a": "x\ud83d"}
    response = operator.get(f"{MIXED_PAGE}/export?column=%24.a&format=csv")
    assert rb",x\ud83d" in b"".join(response.streaming_content)  # type: ignore[attr-defined]


def test_an_empty_topic_says_that_no_message_is_stored(operator: Client, db: None) -> None:
    write_log(MIXED, [])
    assert "No message is stored here." in text_of(operator.get(MIXED_PAGE))


def test_entries_that_moved_while_they_were_read_are_counted(operator: Client, mixed: Written) -> None:
    head = topic_head(MIXED)
    assert head is not None
    asked = Asked(start="oldest", is_backward=False)
    found = lanes_of(head, asked)
    mixed.ledgers[0].delete()
    lane = reader.LaneReader(found[0], is_backward=False, slots=None, shares=1)
    piece = lane.next_piece()
    assert piece is not None
    assert (piece.gone, len(piece.entries)) == (6, 4)


KEYS = st.sampled_from(["a", "a", "b", None])
OUTGOING: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    key=KEYS,
    properties=st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"])),
    payload=st.one_of(
        st.builds(
            lambda n, t: json.dumps({"n": n, "t": t}).encode(), st.integers(0, 5), st.sampled_from("uvw")
        ),
        st.sampled_from([b"", b"\xff\xfe", b"[1, 2", b"plain u"]),
    ),
)
ENTRIES = st.lists(
    st.one_of(
        st.tuples(st.lists(OUTGOING, min_size=1, max_size=4), st.just(True), st.none()),
        st.tuples(st.lists(OUTGOING, min_size=1, max_size=1), st.just(False), st.sampled_from([None, b"z"])),
    ),
    max_size=25,
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["a", "b"]),
        "prop": st.sampled_from(["x", "x=1", "y=2"]),
        "path": st.just("n"),
        "text": st.sampled_from(["u", "1"]),
    },
)


def encoded(number: int, members: list[dict[str, Any]], is_batch: bool, ordering_key: bytes | None) -> bytes:
    if is_batch or len(members) > 1:
        return encode_batch(
            [OutgoingMessage(**member) for member in members],
            producer_name="p",
            sequence_id=number,
            publish_time_ms=1,
            compression=Compression.LZ4 if number % 2 else Compression.NONE,
        )
    return encode_single(
        producer_name="p", sequence_id=number, publish_time_ms=1, ordering_key=ordering_key, **members[0]
    )


@given(
    entries=ENTRIES,
    filters=FILTERS,
    is_backward=st.booleans(),
    limit=st.integers(1, 9),
    piece=st.integers(1, 7),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.django_db(transaction=True)
def test_no_match_is_missed(
    entries: list[Any], filters: dict[str, str], is_backward: bool, limit: int, piece: int, clean_log: Any
) -> None:
    """Page after page, the browser finds what a plain loop over all messages finds."""
    with clean_log(piece) as name:
        data = [encoded(number, *entry) for number, entry in enumerate(entries)]
        log = write_log(name, data, ledger_entries=9)
        wanted: Filters = filters_of(dict(filters))
        expected: list[str] = []
        for number, each in enumerate(data):
            for message in decode_messages(each, max_message_bytes=10**6):
                if plainly(wanted, message):
                    suffix = "" if message.batch_index < 0 else f":{message.batch_index}"
                    expected.append(log.spot(number) + suffix)
        head = topic_head(name)
        assert head is not None
        asked = Asked(
            start="newest" if is_backward else "oldest", is_backward=is_backward, filters=wanted, limit=limit
        )
        found: list[str] = []
        while True:
            page = browse(head, asked)
            found += [str(row.spot) for row in page.rows]
            if page.looked.stopped_by == "end":
                break
            assert page.looked.mark != asked.after
            asked = replace(asked, after=page.looked.mark)
        assert found == (expected[::-1] if is_backward else expected)


def plainly(filters: Filters, message: Message) -> bool:
    """Return whether a message matches, by the simplest code that decides it."""
    if filters.key and message.key != filters.key:
        return False
    if filters.property_name and filters.property_name not in message.properties:
        return False
    if (
        filters.property_value is not None
        and message.properties[filters.property_name] != filters.property_value
    ):
        return False
    if filters.text and filters.text not in message.payload.decode("latin-1"):
        return False
    return filters.json_test is None or b'"n"' in message.payload


@pytest.fixture
def clean_log(db: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A context manager that yields a new topic's name, and makes searches read only a few entries at a time."""
    numbers = count()

    @contextmanager
    def fresh(piece: int) -> Any:
        monkeypatch.setattr(reader, "PIECE_ENTRIES", piece)
        monkeypatch.setattr(reader, "_NARROWED_ENTRIES", piece + 20)
        yield f"persistent://public/default/found-{next(numbers)}"

    return fresh


def test_a_filter_that_needs_the_payload_cannot_judge_metadata() -> None:
    (message,) = decode_messages(single(1, key="k"), max_message_bytes=100)
    assert matches(Filters(key="k", text="1"), message, has_payload=False) is None
    assert matches(Filters(key="x", text="1"), message, has_payload=False) is False
    assert matches(Filters(key="k"), message, has_payload=False) is True


@pytest.mark.parametrize(
    "text", ["1", "1:", ":1", "1:2:3:4:5", "-1:0", "1:-1", "1:2:-3", "1:2:99999999999", "²:1", "1:2\n3"]
)
def test_a_text_that_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="position"):
        read_spot(text)


def test_contradictory_options_name_their_field() -> None:
    with pytest.raises(AskedInvalid) as refused:
        Asked(start="holes")
    assert refused.value.field == "sub"
