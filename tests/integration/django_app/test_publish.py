"""`broker.publish` inside Django's transactions: rows appear with the commit and never without it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from broker import apublish, publish
from broker.core.errors import InvalidTopicName, MessageTooLarge, MetadataInvalid
from broker.core.hash_slots import slot_of_key
from broker.models import Outbox, Tenant
from vela.wire.entry import decode_messages

pytestmark = pytest.mark.django_db(transaction=True)


class Undone(Exception):
    """Raised by a test to roll back."""


def published() -> list[tuple[str, bytes]]:
    return [
        (row.topic, decode_messages(bytes(row.data), max_message_bytes=2**20)[0].payload)
        for row in Outbox.objects.order_by("id")
    ]


def rolled_back(payload: bytes) -> None:
    with suppress(Undone), transaction.atomic():
        publish("orders", payload)
        raise Undone


def test_a_message_is_committed_with_the_business_data() -> None:
    with transaction.atomic():
        Tenant.objects.create(name="business")
        publish("orders", b"placed", key="k", properties={"a": "1"})
        publish("orders", "text")
    assert published() == [
        ("persistent://public/default/orders", b"placed"),
        ("persistent://public/default/orders", b"text"),
    ]
    first = Outbox.objects.order_by("id")[0]
    (message,) = decode_messages(bytes(first.data), max_message_bytes=2**20)
    assert (message.key, message.properties) == ("k", {"a": "1"})
    assert first.key_hash == slot_of_key(b"k")


def test_a_rolled_back_transaction_publishes_nothing() -> None:
    rolled_back(b"never")
    assert published() == []


def test_a_rolled_back_savepoint_discards_its_messages_and_no_others() -> None:
    with transaction.atomic():
        publish("orders", b"kept")
        rolled_back(b"never")
        publish("orders", b"kept too")
    assert [payload for _, payload in published()] == [b"kept", b"kept too"]


def test_outside_a_transaction_a_message_is_committed_at_once() -> None:
    publish("orders", b"now")
    assert len(published()) == 1


@pytest.mark.parametrize("messages", [1, 50])
def test_the_broker_is_notified_once_per_transaction_after_the_commit(messages: int) -> None:
    told: list[str] = []
    with connection.cursor() as cursor:
        cursor.execute("LISTEN vela_outbox")
    connection.connection.add_notify_handler(lambda notify: told.append(notify.channel))
    try:
        with transaction.atomic():
            for _ in range(messages):
                publish("orders", b"x")
            assert told == []
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert told == ["vela_outbox"]
    finally:
        connection.close()


def test_delayed_messages_keep_their_delivery_time() -> None:
    at = datetime(2040, 1, 1, tzinfo=UTC)
    publish("orders", b"x", deliver_at=at)
    publish("orders", b"x", deliver_after=timedelta(hours=1))
    first, second = Outbox.objects.order_by("id")
    assert first.deliver_at_ms == int(at.timestamp() * 1000)
    assert second.deliver_at_ms > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "a/b", "payload": b""}, InvalidTopicName),
        ({"topic": "non-persistent://public/default/t", "payload": b""}, InvalidTopicName),
        ({"topic": "t", "payload": b"x" * (5 * 2**20 + 1)}, MessageTooLarge),
        ({"topic": "t", "payload": b"", "properties": {"a": "x" * (5 * 2**20 + 10_240)}}, MessageTooLarge),
        ({"topic": "t", "payload": b"", "deliver_at": datetime(2040, 1, 1)}, MetadataInvalid),  # noqa: DTZ001
        ({"topic": "t", "payload": b"", "event_time": datetime(1960, 1, 1, tzinfo=UTC)}, MetadataInvalid),
        ({"topic": "t", "payload": b"", "deliver_after": 5}, MetadataInvalid),
        ({"topic": "t", "payload": b"", "properties": {"a": 1}}, MetadataInvalid),
        ({"topic": "t", "payload": None}, MetadataInvalid),
        ({"topic": "t", "payload": "\ud800"}, MetadataInvalid),
        ({"topic": "t", "payload": b"", "key": 5}, MetadataInvalid),
        ({"topic": "t", "payload": b"", "key": "\ud800"}, MetadataInvalid),
        ({"topic": "t", "payload": b"", "ordering_key": "k"}, MetadataInvalid),
        ({"topic": "t", "payload": b"", "properties": {"a": "\ud800"}}, MetadataInvalid),
        (
            {
                "topic": "t",
                "payload": b"",
                "deliver_at": datetime(2040, 1, 1, tzinfo=UTC),
                "deliver_after": timedelta(1),
            },
            MetadataInvalid,
        ),
    ],
)
def test_an_invalid_message_is_refused_and_the_transaction_continues(
    arguments: dict[str, object], error: type[Exception]
) -> None:
    with transaction.atomic():
        publish("orders", b"before")
        with pytest.raises(error):
            publish(**arguments)  # type: ignore[arg-type]
        publish("orders", b"after")
    assert [payload for _, payload in published()] == [b"before", b"after"]


async def test_asynchronous_code_can_publish() -> None:
    await apublish("orders", b"x")
    assert await Outbox.objects.acount() == 1
    await sync_to_async(connections.close_all)()  # the connections of the thread that ran the statements
