"""A producer whose client encrypts: the broker stores the keys and the parameter, and consumers get both."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from broker.doors.websocket.application import websocket_application
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer

PRODUCER = "/ws/v2/producer/persistent/public/default/orders"
CONSUMER = (
    "/ws/v2/consumer/persistent/public/default/orders/s?subscriptionInitialPosition=Earliest"
    "&cryptoFailureAction=CONSUME"
)
READER = "/ws/v2/reader/persistent/public/default/orders"
KEYS = {
    "one": {"keyValue": base64.b64encode(b"data key").decode(), "metadata": {"version": "1"}},
    "two": {"keyValue": base64.b64encode(b"same key").decode()},
}


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


async def producer(broker: FakeBroker, query: str = "") -> Peer:
    keys = quote(text(json.dumps(KEYS).encode()), safe="")
    return await Peer(websocket_application(broker), f"{PRODUCER}?encryptionKeys={keys}{query}").opened()


async def test_a_consumer_gets_what_it_needs_to_decrypt(broker: FakeBroker) -> None:
    peer = await producer(broker, "&batchingEnabled=true&compressionType=LZ4")
    message = {
        "payload": text(b"cipher"),
        "key": "k",
        "encryptionParam": text(b"iv"),
        "compressionType": "ZLIB",
        "uncompressedMessageSize": 9,
    }
    await peer.tell(message)
    await peer.tell({"payload": text(b"plain size"), "encryptionParam": text(b"iv2"), "context": "2"})
    assert [each["result"] for each in peer.heard()] == ["ok", "ok"]
    consumer = await Peer(websocket_application(broker), CONSUMER).opened()
    first, second = consumer.heard()
    assert (first["payload"], first["key"]) == (text(b"cipher"), "k")
    context = first["encryptionContext"]
    assert context["keys"]["one"] == {"keyValue": text(b"data key"), "metadata": {"version": "1"}}
    assert context["keys"]["two"]["keyValue"] == text(b"same key")
    assert (context["param"], context["compressionType"], context["uncompressedMessageSize"]) == (
        text(b"iv"),
        "ZLIB",
        9,
    )
    assert second["encryptionContext"]["param"] == text(b"iv2")


@pytest.mark.parametrize(("action", "payloads"), [("", ["plain"]), ("CONSUME", ["cipher", "plain"])])
async def test_a_reader_gets_an_encrypted_message_if_it_asks_for_it(
    broker: FakeBroker, action: str, payloads: list[str]
) -> None:
    await (await producer(broker)).tell({"payload": text(b"cipher"), "encryptionParam": text(b"iv")})
    plain = await Peer(websocket_application(broker), PRODUCER).opened()
    await plain.tell({"payload": text(b"plain")})
    query = f"?messageId=earliest{action and '&cryptoFailureAction='}{action}"
    reader = await Peer(websocket_application(broker), READER + query).opened()
    heard = reader.heard()
    assert [each["payload"] for each in heard] == [text(each.encode()) for each in payloads]
    assert ["encryptionContext" in each for each in heard] == [each == "cipher" for each in payloads]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "encryptionParam is missing"),
        ({"encryptionParam": "?"}, "not base64"),
        ({"encryptionParam": "aXY=", "compressionType": "RAR"}, "compressionType is one of"),
        ({"encryptionParam": "aXY=", "compressionType": "LZ4"}, "together, or neither"),
        ({"encryptionParam": "aXY=", "uncompressedMessageSize": 7}, "together, or neither"),
        (
            {"encryptionParam": "aXY=", "compressionType": "LZ4", "uncompressedMessageSize": -1},
            "a number from 0",
        ),
    ],
)
async def test_a_message_that_could_not_be_decrypted_is_refused(
    broker: FakeBroker, fields: dict[str, Any], words: str
) -> None:
    peer = await producer(broker)
    await peer.tell({"payload": "", "context": "c", **fields})
    (refused,) = peer.heard()
    assert (refused["result"], refused["context"]) == ("send-error:7", "c")
    assert words in refused["errorMsg"]


DEEP = text(b'{"a": {"keyValue": "", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}}")


@pytest.mark.parametrize("keys", ["one,two", text(b"[]"), text(b"{}"), text(b'{"a": {}}'), DEEP, "%FF"])
async def test_names_of_keys_that_the_broker_does_not_have_are_refused(broker: FakeBroker, keys: str) -> None:
    target = f"{PRODUCER}?encryptionKeys={keys if keys == '%FF' else quote(keys, safe='')}"
    status, _ = await Peer(websocket_application(broker), target).refused()
    assert status == (400 if keys == "%FF" else 500)
