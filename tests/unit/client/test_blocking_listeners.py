"""vela.Client: a listener that is called while `subscribe` or `create_reader` is still running."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

import vela
from vela.errors import ConnectError
from vela.message import Message, ReceivedEntry
from vela.wire.entry import Message as Body


@pytest.mark.parametrize(
    ("create", "position", "listener"),
    [("subscribe", "s", "message_listener"), ("create_reader", vela.MessageId.earliest, "reader_listener")],
)
def test_a_failed_call_releases_a_listener_that_has_a_message_already(
    create: str, position: Any, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener's thread serves other listeners too, so it must not wait for ever."""
    body = Body(b"", {}, None, 0, 0, -1, 0, 0, "p", None)
    message = Message(body, ReceivedEntry("t", 1, 0))
    outcomes: list[BaseException] = []

    def deliver(function: Any) -> None:
        try:
            function(None, message)
        except CancelledError as cancelled:
            outcomes.append(cancelled)

    threads: list[threading.Thread] = []

    async def fail(**given: Any) -> None:
        threads.append(threading.Thread(target=deliver, args=(given[listener],), daemon=True))
        threads[0].start()
        raise ConnectError("the broker is gone")

    with vela.Client("pulsar://localhost") as client:
        monkeypatch.setattr(client.aio, create, fail)
        with pytest.raises(ConnectError):
            getattr(client, create)("t", position, **{listener: lambda *_: None})
    threads[0].join(5)
    assert len(outcomes) == 1


def test_an_event_listener_gets_the_consumer_that_subscribe_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, int]] = []
    threads: list[threading.Thread] = []

    class Events:
        def became_active(self, consumer: Any, partition: int) -> None:
            told.append((consumer, partition))

        became_inactive = became_active

    async def subscribe(**given: Any) -> object:
        events = given["consumer_event_listener"]
        threads.append(threading.Thread(target=events.became_active, args=(None, 3), daemon=True))
        threads[0].start()
        return object()

    with vela.Client("pulsar://localhost") as client:
        monkeypatch.setattr(client.aio, "subscribe", subscribe)
        consumer = client.subscribe("t", "s", vela.ConsumerType.Failover, consumer_event_listener=Events())
        threads[0].join(5)
    assert told == [(consumer, 3)]
