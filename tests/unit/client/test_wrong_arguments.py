"""Arguments of a wrong type are refused by the client's own errors, before a broker is asked."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pulsar
import pytest

import vela
from tests.unit.client.ack_link import consumer
from vela.aio.client import Client as AioClient
from vela.aio.consumers.options import ConsumerOptions
from vela.aio.consumers.subscribing import subscribe
from vela.aio.producers.opening import encryption_of
from vela.aio.readers.reader import open_reader
from vela.aio.readers.table_view import TableView as AioTableView
from vela.blocking.consumer import Consumer
from vela.blocking.producer import Producer
from vela.blocking.table_view import TableView
from vela.core.argument_checks import milliseconds
from vela.core.producing.options import ProducerOptions
from vela.core.service_url import parse_service_url
from vela.core.topic_name import full_name


@pytest.mark.parametrize("topic", [None, 7, b"orders"])
def test_a_topic_must_be_a_string(topic: Any) -> None:
    with pytest.raises(vela.InvalidConfiguration, match="must be a string"):
        full_name(topic)


@pytest.mark.parametrize("topic", [None, 7, ["orders", None]])
async def test_topics_must_be_strings(topic: Any) -> None:
    with pytest.raises(vela.InvalidConfiguration):
        await subscribe(Mock(), topic, ConsumerOptions(subscription_name="s"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_type", "LZ4"),
        ("batching_type", "KeyBased"),
        ("hashing_scheme", None),
        ("message_routing_mode", "RoundRobinDistribution"),
        ("access_mode", "Exclusive"),
        ("message_router", "first"),
        ("schema", "bytes"),
        ("schema", pulsar.schema.StringSchema()),
        ("properties", {"a": 1}),
        ("properties", ["a"]),
    ],
)
def test_a_wrong_option_of_a_producer_is_named(name: str, value: Any) -> None:
    with pytest.raises(vela.InvalidConfiguration, match=name):
        ProducerOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer_type", "Shared"),
        ("initial_position", "Earliest"),
        ("message_listener", "print"),
        ("schema", str),
        ("crypto_key_reader", "key.pem"),
        ("consumer_event_listener", print),
        ("batch_receive_policy", 10),
        ("key_shared_policy", vela.KeySharedMode.AutoSplit),
        ("dead_letter_policy", 3),
        ("negative_ack_redelivery_backoff", 100),
        ("ack_timeout_redelivery_backoff", 100),
        ("negative_ack_timer", "PRECISE"),
        ("properties", {"a": 1}),
        ("subscription_properties", {1: "a"}),
    ],
)
def test_a_wrong_option_of_a_consumer_is_named(name: str, value: Any) -> None:
    with pytest.raises(vela.InvalidConfiguration, match=name):
        ConsumerOptions(**{"subscription_name": "s", name: value})


@pytest.mark.parametrize("name", [None, 7, ""])
def test_a_subscription_needs_a_name_that_is_a_string(name: Any) -> None:
    with pytest.raises(vela.InvalidConfiguration, match="subscription_name must be a non-empty string"):
        ConsumerOptions(subscription_name=name)


def test_a_producer_needs_a_key_reader_with_get_public_key() -> None:
    wrong: Any = "key.pem"
    with pytest.raises(
        vela.InvalidConfiguration, match="crypto_key_reader must be an object with get_public_key"
    ):
        encryption_of("key", wrong)


async def test_a_wrong_listener_of_a_reader_is_named() -> None:
    wrong: Any = "print"
    options = ConsumerOptions(subscription_name="s", durable=False, start_message_id=vela.MessageId.earliest)
    with pytest.raises(vela.InvalidConfiguration, match="reader_listener must be a function"):
        await open_reader(Mock(), "persistent://public/default/t", wrong, options)


@pytest.mark.parametrize(
    ("name", "value"), [("authentication", "token"), ("logger", "vela"), ("logger", print)]
)
def test_a_wrong_option_of_a_client_is_named(name: str, value: Any) -> None:
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(vela.InvalidConfiguration, match=f"{name} must be a "):
        AioClient("pulsar://localhost", **wrong)
    with pytest.raises(vela.InvalidConfiguration, match=name):
        vela.Client("pulsar://localhost", **wrong)


@pytest.mark.parametrize(("name", "value"), [("authentication", "token"), ("message_listener", "print")])
def test_a_wrong_option_of_a_pull_consumer_is_named(name: str, value: Any) -> None:
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(vela.InvalidConfiguration, match=name):
        vela.PullConsumer("http://localhost", "t", "s", **wrong)


def test_a_wrong_callback_of_a_consumer_or_table_view_is_named() -> None:
    wrong: Any = "print"
    consumer = Consumer(Mock(), Mock(), Mock(), receipts=False, take_at_a_time=1, letters=False, client=None)
    view = TableView(Mock(), Mock(), Mock(), client=None)
    for call in (consumer.receive_async, view.for_each, view.for_each_and_listen):
        with pytest.raises(vela.InvalidConfiguration, match="callback must be a function"):
            call(wrong)
    with pytest.raises(vela.InvalidConfiguration, match="callback must be a function"):
        AioTableView(Mock(), Mock(), open_reader=Mock()).for_each_and_listen(wrong)


WRONG_TIMES: list[Any] = ["5", True, b"", float("nan"), 2**2000]


@pytest.mark.parametrize("time", WRONG_TIMES)
def test_an_invalid_waiting_time_is_named(time: Any) -> None:
    with pytest.raises(vela.InvalidConfiguration, match="timeout_millis"):
        milliseconds("timeout_millis", time)


@pytest.mark.parametrize("limits", [{"timeout_ms": "5"}, {"max_num_message": 1.5}, {"timeout_ms": 2**2000}])
def test_a_wrong_limit_of_a_batch_receive_is_named(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        vela.ConsumerBatchReceivePolicy(**limits)


def test_a_service_url_must_be_a_string() -> None:
    wrong: Any = None
    with pytest.raises(vela.InvalidUrl, match="write pulsar://"):
        parse_service_url(wrong)


@pytest.mark.parametrize("data", [b"rubbish", b"", None, "text"])
def test_an_invalid_id_raises_a_vela_error_and_a_value_error(data: Any) -> None:
    with pytest.raises(vela.VelaError, match="not a message id") as caught:
        vela.MessageId.deserialize(data)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("wrong", [None, "x", 7, ["x"]])
def test_only_messages_and_ids_can_be_acknowledged(wrong: Any) -> None:
    owner = consumer()
    for call in (owner.acks.acknowledge, owner.acks.negative_acknowledge):
        with pytest.raises(vela.InvalidConfiguration):
            call(wrong)
    assert owner.acks.acks_sent == 0


def test_a_callback_that_cannot_be_called_is_named_before_anything_is_sent() -> None:
    aio = Mock()
    wrong: Any = "print"
    with pytest.raises(vela.InvalidConfiguration, match="callback"):
        Producer(aio, Mock(), Mock(), most_pending=0, client=None).send_async(b"x", wrong)
    aio.prepare.assert_not_called()
