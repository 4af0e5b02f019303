"""Wrong arguments, with both clients: an error names them, and the broker gets no request."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import vela
import vela.aio
from broker.doors.binary.wire import events
from tests.support.scripted_peer import Link, ScriptedPeer
from tests.unit.client.entries import single

TOPIC = "persistent://public/default/t"
MESSAGE = object()
"""Stands for a message that was received."""
Arguments = tuple[Any, ...]
Named = dict[str, Any]


class Api:
    """One of the two clients. Calls that may wait are made in a coroutine or in a thread."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def call(self, made: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.client, vela.Client):
            return await asyncio.to_thread(getattr(made, method), *args, **kwargs)
        value = getattr(made, method)(*args, **kwargs)
        return await value if inspect.isawaitable(value) else value

    async def refuses(self, named: str, made: Any, method: str, args: Arguments, kwargs: Named) -> None:
        with pytest.raises(vela.InvalidConfiguration, match=named) as caught:
            await asyncio.wait_for(self.call(made, method, *args, **kwargs), 5)
        assert isinstance(caught.value, ValueError)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer.started() as peer:
        yield peer


@pytest.fixture(params=[vela.aio.Client, vela.Client], ids=["aio", "blocking"])
async def api(request: pytest.FixtureRequest, peer: ScriptedPeer) -> AsyncIterator[Api]:
    api = Api(await asyncio.to_thread(request.param, peer.url))
    yield api
    await api.call(api.client, "close")


NUMBERS = ("x", None)
CLIENT: list[tuple[str, Arguments, Named, str]] = [
    ("create_producer", (5,), {}, "a topic's name must be a string"),
    ("create_table_view", (5,), {}, "a topic's name must be a string"),
    ("subscribe", (TOPIC, 5), {}, "subscription_name must be a non-empty string"),
    ("create_reader", (TOPIC, 5), {}, "start_message_id"),
    ("create_reader", (TOPIC, None), {}, "start_message_id"),
    ("create_reader", (TOPIC, vela.MessageId.earliest), {"reader_name": 5}, "reader_name must be a string"),
    (
        "create_reader",
        (TOPIC, vela.MessageId.earliest),
        {"subscription_role_prefix": 5},
        "subscription_role_prefix must be a string",
    ),
    (
        "create_reader",
        (TOPIC, vela.MessageId.earliest),
        {"reader_listener": 5},
        "reader_listener must be a func",
    ),
    ("get_schema", (TOPIC, "1"), {}, "version"),
    *(
        ("create_producer", (TOPIC,), {name: 5}, f"{name} must be a string")
        for name in ("producer_name", "initial_subscription_name")
    ),
    *(
        ("create_producer", (TOPIC,), {name: wrong}, name)
        for wrong in NUMBERS
        for name in (
            "send_timeout_millis",
            "max_pending_messages",
            "max_pending_messages_across_partitions",
            "batching_max_messages",
            "batching_max_allowed_size_in_bytes",
            "batching_max_publish_delay_ms",
            "partitions_update_interval_seconds",
        )
    ),
    ("create_producer", (TOPIC,), {"initial_sequence_id": "x"}, "initial_sequence_id"),
    ("create_producer", (TOPIC,), {"initial_sequence_id": -2}, "initial_sequence_id"),
    (
        "create_producer",
        (TOPIC,),
        {"max_pending_messages": 1.5},
        "max_pending_messages must be a whole number",
    ),
    ("subscribe", (TOPIC, "s"), {"consumer_name": 5}, "consumer_name must be a string"),
    ("subscribe", (TOPIC, "s"), {"unacked_messages_timeout_ms": "x"}, "unacked_messages_timeout_ms"),
    *(
        ("subscribe", (TOPIC, "s"), {name: wrong}, name)
        for wrong in NUMBERS
        for name in (
            "max_total_receiver_queue_size_across_partitions",
            "broker_consumer_stats_cache_time_ms",
            "negative_ack_redelivery_delay_ms",
            "pattern_auto_discovery_period",
            "max_pending_chunked_message",
            "priority_level",
            "expire_time_of_incomplete_chunked_message_ms",
            "ack_group_time_ms",
            "ack_group_size",
            "unacked_messages_tick_ms",
            "partitions_update_interval_seconds",
        )
    ),
]
PRODUCER: list[tuple[Named, str]] = [
    ({"deliver_after": 3}, "deliver_after must be a .*timedelta"),
    ({"deliver_at": "x"}, "deliver_at"),
    ({"deliver_at": True}, "deliver_at"),
    ({"deliver_at": 1.5}, "deliver_at"),
    ({"deliver_after": timedelta(days=-99_999)}, "deliver_after"),
    ({"event_timestamp": "x"}, "event_timestamp"),
    ({"sequence_id": "x"}, "sequence_id"),
    ({"properties": 5}, "properties"),
    ({"properties": ["a"]}, "properties"),
    ({"properties": {"a": 5}}, "properties"),
    ({"properties": {"a": "\ud800"}}, "properties"),
    ({"partition_key": 5}, "partition_key"),
    ({"ordering_key": 5}, "ordering_key"),
    ({"replication_clusters": 5}, "replication_clusters"),
    ({"replication_clusters": "abc"}, "replication_clusters"),
    ({"replication_clusters": [5]}, "replication_clusters"),
]
NO_MESSAGE = "pass a received message"
CONSUMER: list[tuple[str, Arguments, str]] = [
    ("receive", ("5",), "timeout_millis"),
    ("acknowledge", (None,), NO_MESSAGE),
    ("acknowledge", ("x",), NO_MESSAGE),
    ("acknowledge", (["x"],), NO_MESSAGE),
    ("acknowledge", (MESSAGE, 5), "properties"),
    ("acknowledge", (MESSAGE, {"a": "x"}), "properties"),
    ("acknowledge", (MESSAGE, {"a": -1}), "properties"),
    ("acknowledge_cumulative", ([],), NO_MESSAGE),
    ("acknowledge_cumulative", (MESSAGE, {5: 6}), "properties"),
    ("negative_acknowledge", (5,), NO_MESSAGE),
    ("reconsume_later", (MESSAGE, "x"), "delay"),
    ("reconsume_later", (MESSAGE, None), "delay"),
    ("reconsume_later", (MESSAGE, -5), "delay"),
    ("reconsume_later", (MESSAGE, 5, {"a": 5}), "properties"),
    ("reconsume_later", ("x", 5), "message"),
    ("reconsume_later", (vela.MessageId(-1, 7, 7), 5), "message"),
    ("seek", (None,), "seek takes"),
    ("seek", ("x",), "seek takes"),
]
ASKED = (events.Send, events.Ack, events.Redeliver, events.Seek, events.Unsubscribe)


@pytest.mark.parametrize(("method", "args", "kwargs", "named"), CLIENT)
async def test_wrong_arguments_of_the_client_are_named(
    method: str, args: Arguments, kwargs: Named, named: str, api: Api, peer: ScriptedPeer
) -> None:
    await api.refuses(named, api.client, method, args, kwargs)
    assert not [event for event in peer.heard if isinstance(event, events.OpenProducer | events.Subscribe)]


@pytest.mark.parametrize(("kwargs", "named"), PRODUCER)
async def test_wrong_arguments_of_a_producer_are_named(
    kwargs: Named, named: str, api: Api, peer: ScriptedPeer
) -> None:
    producer = await api.call(api.client, "create_producer", TOPIC)
    await api.refuses(named, producer, "send", (b"x",), kwargs)
    assert not peer.count(events.Send)


@pytest.mark.parametrize(("method", "args", "named"), CONSUMER)
@pytest.mark.parametrize("retries", [False, True], ids=["one topic", "with retry letters"])
async def test_wrong_arguments_of_a_consumer_are_named(
    method: str, args: Arguments, named: str, retries: bool, api: Api, peer: ScriptedPeer
) -> None:
    if method == "reconsume_later" and not retries:
        named = "reconsume_later needs a consumer created with retry_enable"
    delivered: list[int] = []

    def deliver(link: Link, event: events.Flow) -> None:
        if not delivered:
            delivered.append(event.consumer_id)
            link.deliver(event.consumer_id, single(b"x"), entry_id=0)

    peer.on(events.Flow, deliver)
    consumer = await api.call(api.client, "subscribe", TOPIC, "s", retry_enable=retries)
    message = await api.call(consumer, "receive", 5000)
    given = tuple(message if each is MESSAGE else each for each in args)
    await api.refuses(named, consumer, method, given, {})
    assert not [event for event in peer.heard if isinstance(event, ASKED)]


@pytest.mark.parametrize(
    "options",
    [
        {"operation_timeout_seconds": "5"},
        {"memory_limit_bytes": "1"},
        {"stats_interval_in_seconds": -1},
        {"io_threads": 0},
        {"io_threads": "1"},
        {"log_conf_file_path": 5},
    ],
    ids=str,
)
def test_wrong_options_of_a_new_client_are_named(options: Named) -> None:
    (name,) = options
    for make in (vela.aio.Client, vela.Client):
        with pytest.raises(vela.InvalidConfiguration, match=name):
            make("pulsar://localhost", **options)


async def _listen(consumer: object, message: object) -> None:
    raise AssertionError("nothing is delivered here")


class _Listener:
    async def __call__(self, consumer: object, message: object) -> None:
        raise AssertionError("nothing is delivered here")


COROUTINE_FUNCTIONS: list[Any] = [_listen, functools.partial(_listen), _Listener()]


@pytest.mark.parametrize("listener", COROUTINE_FUNCTIONS, ids=["function", "partial", "object"])
async def test_only_the_client_for_asyncio_takes_a_coroutine_function_as_listener(
    listener: Any, api: Api, peer: ScriptedPeer
) -> None:
    for method, second, argument in (
        ("subscribe", "s", "message_listener"),
        ("create_reader", vela.MessageId.earliest, "reader_listener"),
    ):
        if isinstance(api.client, vela.Client):
            await api.refuses(
                f"{argument} is a coroutine function: that needs vela.aio",
                api.client,
                method,
                (TOPIC, second),
                {argument: listener},
            )
        else:
            await api.call(api.client, method, TOPIC, second, **{argument: listener})
    assert peer.count(events.Subscribe) == (0 if isinstance(api.client, vela.Client) else 2)


def test_the_blocking_pull_consumer_takes_no_coroutine_functions() -> None:
    for listener in COROUTINE_FUNCTIONS:
        with pytest.raises(vela.InvalidConfiguration, match="message_listener is a coroutine function"):
            vela.PullConsumer("http://localhost:1", "t", "s", message_listener=listener)


NO_MESSAGES = [vela.MessageId.earliest, vela.MessageId.latest, vela.MessageId(), vela.MessageId(-1, 7, -1)]


@pytest.mark.parametrize("method", ["acknowledge", "acknowledge_cumulative", "negative_acknowledge"])
@pytest.mark.parametrize("retries", [False, True], ids=["one topic", "several"])
async def test_ids_without_a_message_are_not_acknowledged(
    method: str, retries: bool, api: Api, peer: ScriptedPeer
) -> None:
    consumer = await api.call(
        api.client,
        "subscribe",
        TOPIC,
        "s",
        retry_enable=retries,
        ack_group_time_ms=0,
        negative_ack_redelivery_delay_ms=0,
    )
    wrong: list[Any] = [*NO_MESSAGES, [vela.MessageId.latest]]
    for each in wrong[: None if method == "acknowledge" else -1]:
        with pytest.raises(vela.OperationNotSupported, match="to move the subscription, use seek"):
            await api.call(consumer, method, each)
    if method == "acknowledge":
        assert await api.call(consumer, method, []) is None
    await api.call(consumer, "close")
    assert not [event for event in peer.heard if isinstance(event, ASKED)]
