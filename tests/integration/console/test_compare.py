"""The page that compares two messages: it marks differences, and shows no more than the page of one message."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from console.messages.message import SHOWN_BYTES
from tests.integration.console.messages import write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, make_topic
from tests.support.entries import encrypted
from vela.wire.entry import encode_single

ORDERS = "/t/persistent/public/default/orders"
PAIRS = "persistent://public/default/pairs"
PAGE = "/t/persistent/public/default/pairs/messages/compare"


def single(payload: bytes, **more: Any) -> bytes:
    return encode_single(producer_name="till", sequence_id=1, publish_time_ms=1, payload=payload, **more)


def test_differences_are_marked(operator: Client, shop: Shop) -> None:
    one = json.dumps({"order": 7, "items": ["a", "b"], "paid": False}).encode()
    other = json.dumps({"items": ["a", "c"], "order": 7, "paid": False, "note": "<b>"}).encode()
    log = write_log(
        PAIRS,
        [
            single(one, key="k", properties={"region": "eu", "try": "1"}),
            single(other, key="k", properties={"region": "us", "new": "x"}),
        ],
    )
    page = operator.get(f"{PAGE}?a={log.spot(0)}&b={log.spot(1)}")
    words = text_of(page)
    assert "Key k k" in words
    assert "region ≠ eu us" in words
    assert "new ≠ – x" in words
    assert "try ≠ 1 –" in words
    assert "≠ &quot;b&quot; &quot;c&quot;" in words
    assert "+ &quot;note&quot;: &quot;&lt;b&gt;&quot; &quot;order" in words
    assert "&quot;order&quot;: 7 &quot;order&quot;: 7 &quot;paid" in words
    assert "<b>" not in page.content.decode()
    assert 'aria-label="differs"' in page.content.decode()
    same = operator.get(f"{PAGE}?a={log.spot(0)}&b={log.spot(0)}")
    assert "The bodies are equal." in text_of(same)
    assert 'aria-label="differs"' not in same.content.decode()


def test_no_value_differs_from_an_empty_one_and_so_do_ordering_keys(operator: Client, shop: Shop) -> None:
    log = write_log(PAIRS, [single(b"", null_value=True), single(b"", ordering_key=b"eu")])
    words = text_of(operator.get(f"{PAGE}?a={log.spot(0)}&b={log.spot(1)}"))
    assert "Sent without a value ≠ yes no" in words
    assert "Ordering key ≠ – eu" in words
    rows = text_of(operator.get(PAGE.removesuffix("/compare")))
    assert "no value" in rows
    assert "empty" in rows
    message = text_of(operator.get(f"{PAGE.removesuffix('/messages/compare')}/m/{log.spot(0)}"))
    assert "The producer sent no value" in message
    assert "The body is empty" not in message


def test_two_ticked_messages_are_compared_with_the_earlier_one_on_the_left(
    operator: Client, shop: Shop
) -> None:
    html = operator.get(f"{ORDERS}/messages").content.decode()
    ticks = re.findall(r'name="pick"\s+value="([^"]+)"', html)
    assert len(ticks) == 20
    assert 'action="/t/persistent/public/default/orders/messages/compare"' in html
    answer = operator.get(f"{ORDERS}/messages/compare?pick={ticks[0]}&pick={ticks[-1]}", follow=True)
    assert answer.redirect_chain[0][0].endswith(f"?a={ticks[-1]}&b={ticks[0]}".replace(":", "%3A"))
    assert answer.status_code == 200
    for picks in (ticks[:1], ticks[:3]):
        query = "&".join(f"pick={each}" for each in picks)
        page = operator.get(f"{ORDERS}/messages/compare?{query}")
        assert "Choose two messages to compare." in text_of(page)
        assert f'value="{ticks[0]}"' in page.content.decode()


def test_a_large_body_is_compared_as_far_as_its_page_shows_it(operator: Client, shop: Shop) -> None:
    same = b"x" * SHOWN_BYTES
    log = write_log(PAIRS, [single(same + b"left"), single(same + b"right")])
    address = f"{PAGE}?a={log.spot(0)}&b={log.spot(1)}"
    words = text_of(operator.get(address))
    assert "Only the beginnings are compared: 65.5 kB of 65.5 kB" in words
    assert "The compared parts are equal." in words
    assert "&amp;all=1" in operator.get(address).content.decode()
    whole = text_of(operator.get(f"{address}&all=1"))
    assert "≠" in whole
    assert "Only the beginnings" not in whole


def test_a_payload_that_cannot_be_read_is_compared_as_bytes(operator: Client, shop: Shop) -> None:
    log = write_log(PAIRS, [encrypted(single(b"a", properties={"n": "1"})), single(b"a")])
    words = text_of(operator.get(f"{PAGE}?a={log.spot(0)}&b={log.spot(1)}"))
    assert "n ≠ 1 –" in words
    assert "as bytes" in words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("a=1&b=2", "Write a position as ledger:entry"),
        ("a=999:1&b=", "999:1 is not stored on this topic"),
    ],
)
def test_a_message_that_does_not_exist_is_refused_in_words(
    query: str, words: str, operator: Client, shop: Shop
) -> None:
    page = operator.get(f"{ORDERS}/messages/compare?{query}")
    assert (page.status_code, words in text_of(page)) == (400, True)


def test_a_message_of_another_topic_is_not_compared(operator: Client, shop: Shop) -> None:
    log = write_log(PAIRS, [single(b"a")])
    page = operator.get(f"{ORDERS}/messages/compare?a={shop.sealed.pk}:1&b={log.spot(0)}")
    assert page.status_code == 400
    assert "is not stored on this topic" in text_of(page)


def test_messages_of_two_partitions_can_be_compared(operator: Client, shop: Shop) -> None:
    dates = make_topic("persistent://public/default/dates")
    dates.partitions = 2
    dates.save()
    logs = [
        write_log(f"{dates.name}-partition-{number}", [single(b"%d" % number)], parent=dates)
        for number in (0, 1)
    ]
    address = "/t/persistent/public/default/dates/messages/compare"
    words = text_of(operator.get(f"{address}?a={logs[0].spot(0)}&b={logs[1].spot(0)}"))
    assert "≠ 0 1" in words
    elsewhere = operator.get(f"{address}?a={shop.sealed.pk}:1")
    assert (elsewhere.status_code, "not stored on any partition" in text_of(elsewhere)) == (400, True)


def test_a_viewer_compares_metadata_only(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(f"{ORDERS}/messages/compare?a={shop.sealed.pk}:5&b={shop.sealed.pk}:6"))
    assert "Producer till till" in words
    assert "Key, properties and body are hidden." in words
    assert "customer-" not in words
    assert "The bodies" not in words
