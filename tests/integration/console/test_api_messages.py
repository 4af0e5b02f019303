"""`/api/v1`: finding messages, and reading one."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from django.test import Client

from tests.integration.console.messages import write_log
from tests.integration.console.shop import BATCH_ENTRY, Shop
from vela.wire.entry import encode_single

ORDERS = "/api/v1/topics/persistent/public/default/orders"


def test_found_messages_have_their_place_and_state(operator: Client, shop: Shop) -> None:
    answer = operator.get(f"{ORDERS}/messages?start=oldest&key=customer-5&sub=billing").json()
    first, second = answer["messages"]
    assert (first["id"], second["id"]) == (f"{shop.sealed.pk}:5", f"{shop.open.pk}:5")
    assert first["topic"] == "persistent://public/default/orders"
    assert (first["key"], first["properties"], first["partition"]) == ("customer-5", [["region", "eu"]], -1)
    assert first["state"] == {
        "subscription": "billing",
        "state": "in flight",
        "is_hole": True,
        "consumer": "clerk",
        "delivered_ms": shop.now_ms - 3000,
        "redelivery_count": 3,
        "due_ms": None,
    }
    assert second["state"]["state"] == "unacked"
    looked = answer["looked_at"]
    assert (looked["entries"], looked["stored_entries"], looked["matched"]) == (16, 16, 2)
    assert (looked["by_key_hash"], looked["stopped_by"], answer["next_after"]) == (True, "end", None)


def test_chosen_columns_are_members_of_each_message(operator: Client, shop: Shop) -> None:
    query = "start=oldest&limit=2&key=customer-5&column=key&column=property:region&column=$.nothing"
    answer = operator.get(f"{ORDERS}/messages?{query}").json()
    expected = {"key": "customer-5", "property:region": "eu", "$.nothing": None}
    assert [each["columns"] for each in answer["messages"]] == [expected, expected]
    assert operator.get(f"{ORDERS}/messages?limit=1").json()["messages"][0]["columns"] == {}


def test_pages_of_found_messages_go_through_the_whole_log(operator: Client, shop: Shop) -> None:
    found: list[str] = []
    after = ""
    for _ in range(20):
        answer = operator.get(f"{ORDERS}/messages?limit=3&after={quote(after)}").json()
        found += [each["id"] for each in answer["messages"]]
        after = answer["next_after"] or ""
        if not after:
            break
    assert (len(found), len(set(found))) == (20, 20)
    assert found[2:4] == [f"{shop.open.pk}:{BATCH_ENTRY}:-1:4", f"{shop.open.pk}:{BATCH_ENTRY}:-1:3"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("start=id", "at: Give the position"),
        ("start=sometime", "start is 'sometime': use newest"),
        ("partition=3", "partition: This topic is not partitioned"),
        ("path=a..b", "path: cannot read"),
        ("column=order", "column: 'order' is not a column. Write $.order.id"),
        ("limit=1000000000000000000000000000000", "from 1 to 500"),
        ("op=~&path=a", "op is '~'"),
        ("after=1:1", "after: Take"),
    ],
)
def test_an_invalid_query_is_refused_by_name(query: str, words: str, operator: Client, shop: Shop) -> None:
    answer = operator.get(f"{ORDERS}/messages?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "BadQuery")
    assert words in answer.json()["detail"]


def test_a_message_is_read_with_its_states_and_neighbours(operator: Client, shop: Shop) -> None:
    place = f"{shop.open.pk}:{BATCH_ENTRY}"
    answer = operator.get(f"{ORDERS}/messages/{place}:1").json()
    assert (answer["id"], answer["payload"], answer["decoder"]) == (f"{place}:-1:1", "member 1", "text")
    assert [state["state"] for state in answer["states"]] == ["acked"]
    assert (answer["older"], answer["newer"]) == (f"{place}:0", f"{place}:2")


def test_a_large_binary_message_is_cut_and_encoded_as_base64(operator: Client, db: None) -> None:
    payload = b"\xff" * 2_000_000
    entry = encode_single(
        producer_name="p", sequence_id=4, publish_time_ms=1, payload=payload, ordering_key=b"\x01"
    )
    log = write_log("persistent://public/default/large", [entry])
    answer = operator.get(f"/api/v1/topics/persistent/public/default/large/messages/{log.spot(0)}").json()
    assert (answer["payload"], answer["is_cut"], answer["payload_bytes"]) == (None, True, 2_000_000)
    assert base64.b64decode(answer["payload_base64"]) == payload[: 1024 * 1024]
    assert (answer["ordering_key"], answer["sequence_id"]) == ("AQ==", 4)


def test_a_large_text_is_cut_before_a_character(operator: Client, db: None) -> None:
    text = "a" * (1024 * 1024 - 1)
    payload = f"{text}é and more".encode()
    entry = encode_single(producer_name="p", sequence_id=4, publish_time_ms=1, payload=payload)
    log = write_log("persistent://public/default/large", [entry])
    answer = operator.get(f"/api/v1/topics/persistent/public/default/large/messages/{log.spot(0)}").json()
    assert (answer["payload"] == text, answer["payload_base64"], answer["is_cut"]) == (True, None, True)


@pytest.mark.parametrize("spot", ["oops", "1:99999", "1000000:1", "1" + "0" * 30 + ":0"])
def test_a_message_that_does_not_exist_gets_404(spot: str, operator: Client, shop: Shop) -> None:
    answer = operator.get(f"{ORDERS}/messages/{spot}")
    assert (answer.status_code, answer.json()["code"]) == (404, "MessageNotFound")


def test_a_user_who_may_not_see_payloads_finds_nothing(looker: Client, shop: Shop) -> None:
    for address in ("messages", f"messages/{shop.sealed.pk}:1"):
        assert looker.get(f"{ORDERS}/{address}").status_code == 403
