"""What `@handler` takes, and what a message becomes."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from broker.core.subscription.types import SubscriptionType
from broker.handlers import HandlerInvalid, Message, handler
from broker.handlers.registry import registered


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.handlers.registry._registered", {})


def test_a_handler_becomes_a_consumer() -> None:
    @handler(
        "a/b/c", subscription="s/1", concurrency=7, max_redeliveries=3, ack_timeout_s=2, from_earliest=True
    )
    def take(message: Message) -> None: ...

    (made,) = registered().values()
    assert made.name.endswith("take")
    parts = urlsplit(made.path())
    assert parts.path == "/ws/v2/consumer/persistent/a/b/c/s%2F1"
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert query.pop("consumerName") == made.name
    assert query == {
        "subscriptionType": "Shared",
        "subscriptionInitialPosition": "Earliest",
        "receiverQueueSize": "7",
        "negativeAckRedeliveryDelay": "60000",
        "ackTimeoutMillis": "2000",
        "maxRedeliverCount": "3",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "a/b"}, "topic"),
        ({"subscription": ""}, "subscription"),
        ({"type": "Sharde"}, "Key_Shared"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 2, "type": "Failover"}, "order"),
        ({"retry_delay_s": 0}, "retry_delay_s"),
        ({"ack_timeout_s": 0.5}, "ack_timeout_s"),
        ({"max_redeliveries": -1}, "max_redeliveries"),
        ({"max_redeliveries": 1, "type": SubscriptionType.EXCLUSIVE}, "never counts"),
        ({"dead_letter_topic": "d"}, "max_redeliveries"),
    ],
)
def test_what_cannot_work_is_refused_at_import(arguments: dict[str, Any], said: str) -> None:
    declared = {"topic": "t", "subscription": "s", **arguments}

    def take(message: Message) -> None: ...

    with pytest.raises(HandlerInvalid, match=said):
        handler(**declared)(take)
    assert registered() == {}


def test_a_coroutine_has_no_transaction_of_a_thread() -> None:
    async def take(message: Message) -> None: ...

    with pytest.raises(HandlerInvalid, match="atomic"):
        handler("t", subscription="s", atomic=True)(take)


def test_a_message_from_a_frame() -> None:
    message = Message.from_push(
        "t",
        {
            "messageId": "CAE=",
            "payload": base64.b64encode(b'{"a": 1}').decode(),
            "key": "k",
            "properties": {"p": "v"},
            "publishTime": "2026-03-01T14:30:00.12Z",
            "redeliveryCount": 2,
        },
    )
    assert (message.text, message.json(), message.key) == ('{"a": 1}', {"a": 1}, "k")
    assert message.publish_time is not None
    assert message.publish_time.year == 2026
    assert (message.event_time, message.redelivery_count) == (None, 2)
    with pytest.raises(KeyError):
        Message.from_push("t", {"messageId": "x"})
