"""What `@handler` takes and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.subscription.types import SubscriptionType
from broker.handlers import HandlerInvalid, Message, handler
from broker.handlers.registry import registered


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.handlers.registry._registered", {})


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
def test_wrong_handlers_are_refused_at_import(arguments: dict[str, Any], said: str) -> None:
    declared = {"topic": "t", "subscription": "s", **arguments}

    def take(message: Message) -> None: ...

    with pytest.raises(HandlerInvalid, match=said):
        handler(**declared)(take)
    assert registered() == {}


def test_a_coroutine_cannot_be_an_atomic_handler() -> None:
    async def take(message: Message) -> None: ...

    with pytest.raises(HandlerInvalid, match="atomic"):
        handler("t", subscription="s", atomic=True)(take)


def test_a_function_cannot_be_two_handlers() -> None:
    def take(message: Message) -> None: ...

    handler("a", subscription="s")(take)
    with pytest.raises(HandlerInvalid, match="one function for each"):
        handler("b", subscription="s")(take)
