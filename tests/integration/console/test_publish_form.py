"""Publishing from the pages: a new message, and a stored one again."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.test import Client

from broker.acts import requests as acts
from broker.acts.kinds.topics.publish import Publish
from console.topic_forms.labels import as_lines, read_lines
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.messages import write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop
from vela.wire.entry import encode_single

PAGE = "/t/persistent/public/default/orders"
FORM = f"{PAGE}/act/publish"
PLAN = {
    "words": ["1 message of 5 bytes is stored in orders"],
    "payload_bytes": 5,
    "payload_sha256": "ab12",
    "topic": ORDERS,
    "replayed_messages": 0,
    "skipped_messages": 0,
    "notes": ["it cannot be undone"],
}
EMPTY = {"encoding": "text", "key_encoding": "text", "delay_unit": "s"}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> FakeActs:
    """A broker that answers at once."""
    fake = FakeActs(next_plan=dict(PLAN))
    for name in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


def parameters(broker: FakeActs) -> dict[str, Any]:
    """Return the parameters of the last plan that the console asked for."""
    _, given = broker.asked[-1]
    assert (given[0], given[2]) == ("publish", "")
    asked: dict[str, Any] = given[3]
    return asked


def test_every_field_of_the_form_reaches_the_act(operator: Client, broker: FakeActs) -> None:
    filled = {
        **EMPTY,
        "value": "one\r\ntwo",
        "key": "eu",
        "properties": "by = hand\nempty =",
        "event_time": "2026-01-31 09:30",
        "delay": "15",
        "delay_unit": "min",
        "partition": "2",
        "ordering_key": "AAE=",
    }
    page = operator.post(FORM, filled, follow=True)
    event_time_ms = int(datetime(2026, 1, 31, 9, 30, tzinfo=UTC).timestamp() * 1000)
    assert parameters(broker) == {
        "value": "one\ntwo",
        "encoding": "text",
        "key": "eu",
        "key_encoding": "text",
        "properties": {"by": "hand", "empty": ""},
        "event_time_ms": event_time_ms,
        "deliver_after_ms": 900_000,
        "partition": 2,
        "ordering_key": "AAE=",
    }
    assert "SHA-256 of the payload ab12" in text_of(page)
    assert "Type orders to confirm" not in text_of(page)


def test_line_breaks_in_base64_do_not_count_towards_its_size(operator: Client, broker: FakeActs) -> None:
    whole = bytes(1 << 20)
    wrapped = base64.encodebytes(whole).decode()
    assert operator.post(FORM, {**EMPTY, "value": wrapped, "encoding": "base64"}).status_code == 302
    assert base64.b64decode(parameters(broker)["value"], validate=True) == whole


def test_an_empty_message_is_a_message(operator: Client, broker: FakeActs) -> None:
    assert operator.post(FORM, EMPTY).status_code == 302
    assert parameters(broker) == {"value": "", "encoding": "text"}


def test_a_message_without_a_value_is_not_an_empty_one(operator: Client, broker: FakeActs) -> None:
    assert (
        operator.post(FORM, {**EMPTY, "encoding": "json", "no_value": "on", "key": "eu"}).status_code == 302
    )
    assert parameters(broker) == {"null_value": True, "key": "eu", "key_encoding": "text"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": "{", "encoding": "json"}, "This is not JSON:"),
        ({"value": "", "encoding": "json"}, "This is not JSON:"),
        ({"value": "[" * 100_000, "encoding": "json"}, "This is not JSON:"),
        ({"value": "é", "encoding": "base64"}, "This is not base64."),
        ({"value": "x", "no_value": "on"}, "Leave the value empty"),
        ({"value": "x", "encoding": "xml"}, "xml is not one of"),
        ({"value": "x" * 1_400_000}, "at most 1 MiB"),
        ({"key": "é", "key_encoding": "base64"}, "This is not base64."),
        ({"properties": "a"}, "Write “a” as name = value."),
        ({"properties": "a=1\na=2"}, "a is given twice."),
        ({"properties": '{"a": 1}'}, "must be text."),
        ({"properties": "{"}, "begins like a JSON object"),
        ({"event_time": "tomorrow"}, "Write the time as"),
        ({"event_time": "1960-01-01"}, "Give a time after 1970."),
        ({"delay": "0"}, "At least 1."),
        ({"delay": "soon"}, "Give a whole number."),
        ({"partition": "-1"}, "Partitions begin at 0."),
        ({"ordering_key": "é"}, "This is not base64."),
    ],
)
def test_wrong_input_has_its_error_beside_its_field(
    changes: dict[str, str], words: str, operator: Client, broker: FakeActs
) -> None:
    answer = operator.post(FORM, {**EMPTY, **changes})
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert broker.asked == []


def test_a_form_with_an_error_keeps_the_invisible_characters_of_the_message(
    operator: Client, broker: FakeActs
) -> None:
    value = "\U0001f469\u200d\U0001f680 می\u200cخواهم"  # an emoji and a Persian word with such characters
    answer = operator.post(FORM, {**EMPTY, "value": value, "delay": "soon"})
    assert answer.status_code == 422
    assert f"{value}</textarea>" in unescape(answer.content.decode())


def test_a_refusal_of_the_broker_keeps_the_message_in_the_form(operator: Client, broker: FakeActs) -> None:
    broker.refusal = "the payload has 5 bytes: orders takes at most 4"
    answer = operator.post(FORM, {**EMPTY, "value": "hello"})
    assert answer.status_code == 409
    assert "Not planned. The payload has 5 bytes" in text_of(answer)
    assert "hello</textarea>" in answer.content.decode()


def test_the_receipt_leads_to_the_message(operator: Client, broker: FakeActs) -> None:
    from dataclasses import replace

    operator.post(FORM, {**EMPTY, "value": "hello"})
    result = {**PLAN, "notes": [Publish.no_undo, "another note"], "message_id": "7:3"}
    broker.acts[1] = replace(broker.acts[1], state="applied", result=result)
    page = operator.get("/acts/1")
    assert text_of(page).count("consumers get the message like any other") == 1
    assert "Another note" in text_of(page)
    assert f'href="{PAGE}/m/7:3"' in page.content.decode()
    assert "5 bytes, SHA-256 ab12" in text_of(page)


def test_a_terminated_topic_says_why_and_offers_another(operator: Client, shop: Shop) -> None:
    shop.topic.terminated_at = datetime(2026, 1, 1, tzinfo=UTC)
    shop.topic.save()
    words = text_of(operator.get(FORM))
    assert "The topic is terminated: it takes no more messages. Create another topic" in words


class TestAgain:
    def test_a_stored_message_is_published_again_unchanged(
        self, operator: Client, broker: FakeActs, shop: Shop
    ) -> None:
        address = f"{PAGE}/m/{shop.sealed.pk}:3"
        assert f'href="{address}/again"' in operator.get(address).content.decode()
        answer = operator.post(f"{address}/again", {"how": "as-is", "to_topic": ORDERS})
        assert answer.status_code == 302
        asked = parameters(broker)
        assert base64.b64decode(asked["value"]).decode().startswith(f'{{"order": "{shop.sealed.pk}-3"')
        assert {name: asked[name] for name in asked if name != "value"} == {
            "encoding": "base64",
            "key": "customer-3",
            "key_encoding": "text",
            "properties": {"region": "eu"},
            "copy_of": f"{ORDERS} {shop.sealed.pk}:3",
        }

    def test_a_stored_message_is_published_to_another_topic_with_changes(
        self, operator: Client, broker: FakeActs, shop: Shop
    ) -> None:
        address = f"{PAGE}/m/{shop.sealed.pk}:3/again"
        page = operator.get(address)
        assert 'value="customer-3"' in page.content.decode()
        assert "region = eu</textarea>" in page.content.decode()
        filled = {**EMPTY, "how": "edited", "to_topic": "other", "value": "new", "key": "k"}
        assert operator.post(address, filled).status_code == 302
        assert broker.asked[-1][1][1] == "persistent://public/default/other"
        assert parameters(broker)["value"] == "new"

    def test_a_member_of_a_batch_is_published_again_alone(
        self, operator: Client, broker: FakeActs, shop: Shop
    ) -> None:
        address = f"{PAGE}/m/{shop.open.pk}:3:2/again"
        operator.post(address, {"how": "as-is", "to_topic": "orders"})
        assert base64.b64decode(parameters(broker)["value"]) == b"member 2"

    @pytest.mark.parametrize("how", ["as-is", "edited"])
    @pytest.mark.parametrize(
        ("topic", "words"), [("", "Name the topic"), ("a/b", "topic"), ("x://y", "topic")]
    )
    def test_an_invalid_topic_has_its_error_beside_its_field(
        self, topic: str, words: str, how: str, operator: Client, broker: FakeActs, shop: Shop
    ) -> None:
        filled = {**EMPTY, "how": how, "to_topic": topic}
        answer = operator.post(f"{PAGE}/m/{shop.sealed.pk}:3/again", filled)
        assert answer.status_code == 422
        assert words in text_of(answer)
        assert broker.asked == []

    def test_a_message_without_a_value_stays_without_one(self, operator: Client, broker: FakeActs) -> None:
        entry = encode_single(
            producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"", key="eu", null_value=True
        )
        log = write_log("persistent://public/default/odd", [entry])
        address = f"/t/persistent/public/default/odd/m/{log.spot(0)}/again"
        box = re.search(
            r'<input type="checkbox" name="no_value"[^>]*>', operator.get(address).content.decode()
        )
        assert box is not None
        assert "checked" in box[0]
        shared = {
            "null_value": True,
            "key": "eu",
            "key_encoding": "text",
            "copy_of": f"persistent://public/default/odd {log.spot(0)}",
        }
        filled = {**EMPTY, "to_topic": "odd", "key": "eu", "no_value": "on"}
        for how in ("as-is", "edited"):
            assert operator.post(address, {**filled, "how": how}).status_code == 302
            assert parameters(broker) == shared

    def test_a_text_that_a_browser_would_change_is_edited_as_base64(
        self, operator: Client, broker: FakeActs
    ) -> None:
        entry = encode_single(
            producer_name="p",
            sequence_id=0,
            publish_time_ms=1,
            payload=b"a\r\nb\x01",
            key="k\n",
            properties={"a": "b\nc", " d": "\u202e"},
        )
        log = write_log("persistent://public/default/odd", [entry])
        page = operator.get(f"/t/persistent/public/default/odd/m/{log.spot(0)}/again").content.decode()
        assert base64.b64encode(b"a\r\nb\x01").decode() + "</textarea>" in page
        assert f'value="{base64.b64encode(b"k" + bytes([10])).decode()}"' in page
        assert "\\u202e" in page

    def test_an_unreadable_message_says_why(self, operator: Client, broker: FakeActs) -> None:
        log = write_log("persistent://public/default/odd", [b"\x0e\x01garbage"])
        address = f"/t/persistent/public/default/odd/m/{log.spot(0)}/again"
        for page in (operator.get(address), operator.post(address, {"how": "as-is", "to_topic": "odd"})):
            assert "cannot be published again" in text_of(page)
        assert broker.asked == []

    def test_a_viewer_sees_no_form(self, looker: Client, broker: FakeActs, shop: Shop) -> None:
        address = f"{PAGE}/m/{shop.sealed.pk}:3"
        assert "Publish again" not in text_of(looker.get(address))
        assert looker.get(f"{address}/again").status_code == 403


@pytest.mark.parametrize(
    "labels",
    [{}, {"a": "1"}, {"a": " x"}, {"a=b": "c"}, {"": "x"}, {"a": "b\nc"}, {"{": "}"}, {"a": "\x00\x85"}],
)
def test_properties_come_back_from_their_lines_unchanged(labels: dict[str, str]) -> None:
    assert read_lines(as_lines(labels)) == labels
