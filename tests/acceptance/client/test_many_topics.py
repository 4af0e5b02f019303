"""Consumers of partitions, lists and patterns of topics, readers, and table views, with a whole Vela."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.support.vela import VelaProcess
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.multi_topics import MultiTopicsConsumer
from vela.aio.consumers.pattern import PatternConsumer
from vela.errors import ConsumerBusy, InvalidConfiguration, Timeout
from vela.message import Message, MessageId
from vela.options import ConsumerType, InitialPosition, RegexSubscriptionMode


async def partitioned(vela: VelaProcess, topic: str, count: int) -> None:
    await asyncio.to_thread(vela.manage, "createtopic", topic, "--partitions", str(count))


async def publish(client: Client, topic: str, *payloads: bytes, key: str | None = None) -> list[MessageId]:
    producer = await client.create_producer(topic)
    ids = [await producer.send(payload, partition_key=key) for payload in payloads]
    await producer.close()
    return ids


async def take(consumer: Consumer, count: int) -> list[Message]:
    async with asyncio.timeout(20):
        return [await consumer.receive() for _ in range(count)]


def numbers(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


async def test_a_partitioned_topic_is_consumed_whole_acked_by_message_and_sought_by_time(
    client: Client, shared_vela: VelaProcess, topic: str
) -> None:
    await partitioned(shared_vela, topic, 3)
    consumer = await client.subscribe(topic, "s", receiver_queue_size=10)
    assert isinstance(consumer, MultiTopicsConsumer)
    assert sorted(consumer.topics()) == [f"{topic}-partition-{index}" for index in range(3)]
    await publish(client, topic, *numbers("m", 90))
    messages = await take(consumer, 90)
    assert sorted(message.data() for message in messages) == sorted(numbers("m", 90))
    assert {message.message_id().partition() for message in messages} == {0, 1, 2}
    for message in messages[:-1]:
        consumer.acknowledge(message)
    await consumer.close()

    again = await client.subscribe(topic, "s")
    left = await again.receive(20_000)
    assert left.data() == messages[-1].data()
    await again.acknowledge(MessageId.deserialize(left.message_id().serialize(), topic))
    await again.seek(1)
    assert sorted(message.data() for message in await take(again, 90)) == sorted(numbers("m", 90))
    await again.unsubscribe()


async def test_consumers_of_a_list_of_topics_share_one_queue(client: Client, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "abc"]
    consumer = await client.subscribe(names, "s", consumer_type=ConsumerType.Shared)
    for name in names:
        await publish(client, name, *numbers(name[-1], 5))
    messages = await take(consumer, 15)
    assert {message.topic_name() for message in messages} == set(names)
    for name in names:
        own = [message.data() for message in messages if message.topic_name() == name]
        assert own == numbers(name[-1], 5)
    await consumer.acknowledge(messages)
    consumer.redeliver_unacknowledged_messages()
    with pytest.raises(Timeout):
        await consumer.receive(300)
    await consumer.seek(messages[0].message_id())
    sought = messages[0].topic_name()
    assert {message.topic_name() for message in await take(consumer, 4)} == {sought}


async def test_one_refused_topic_leaves_no_other_subscribed(client: Client, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "ab"]
    holder = await client.subscribe(names[1], "s")
    with pytest.raises(ConsumerBusy):
        await client.subscribe(names, "s")
    await holder.close()
    await (await client.subscribe(names, "s")).close()


async def test_a_pattern_reads_a_non_persistent_topic(client: Client, topic: str) -> None:
    passing = f"non-{topic}" if topic.startswith("persistent") else f"non-persistent://public/default/{topic}"
    producer = await client.create_producer(passing)
    consumer = await client.subscribe(
        re.compile(re.escape(topic.rpartition("/")[2])),
        "s",
        regex_subscription_mode=RegexSubscriptionMode.NonPersistentOnly,
    )
    await producer.send(b"passing")
    assert (await consumer.receive(20_000)).data() == b"passing"


async def test_a_pattern_reads_new_topics_from_their_first_message(client: Client, topic: str) -> None:
    await publish(client, f"{topic}-1", b"before")
    consumer = await client.subscribe(
        re.compile(f"{topic}-.*"), "s", initial_position=InitialPosition.Earliest
    )
    assert isinstance(consumer, PatternConsumer)
    assert (await consumer.receive(20_000)).data() == b"before"
    await publish(client, f"{topic}-2", b"new")
    await publish(client, f"{topic[:-1]}x", b"another")
    await consumer.look()
    message = await consumer.receive(20_000)
    assert (message.data(), message.topic_name()) == (b"new", f"{topic}-2")
    await consumer.look()
    assert sorted(consumer.topics()) == [f"{topic}-1", f"{topic}-2"]


async def test_added_partitions_are_read_from_their_first_message(
    client: Client, shared_vela: VelaProcess, topic: str
) -> None:
    await partitioned(shared_vela, topic, 1)
    consumer = await client.subscribe(topic, "s", partitions_update_interval_seconds=0.05)
    assert isinstance(consumer, MultiTopicsConsumer)
    await asyncio.to_thread(shared_vela.manage, "updatepartitions", topic, "2", "--yes")
    await publish(client, f"{topic}-partition-1", b"early")
    assert (await consumer.receive(20_000)).data() == b"early"
    assert len(consumer.topics()) == 2


@pytest.mark.row("S2.10")
@pytest.mark.parametrize("size", [0, None])
async def test_several_topics_are_refused_without_a_queue(
    client: Client, topic: str, size: int | None
) -> None:
    if size == 0:
        with pytest.raises(InvalidConfiguration, match="receiver_queue_size > 0"):
            await client.subscribe([topic, f"{topic}-b"], "s", receiver_queue_size=size)
    else:
        await (await client.subscribe([topic, f"{topic}-b"], "s", receiver_queue_size=size)).close()


async def test_a_reader_reads_from_either_end_and_from_a_message(client: Client, topic: str) -> None:
    ids = await publish(client, topic, *numbers("m", 5))
    async with await client.create_reader(topic, MessageId.earliest) as reader:
        found = []
        while await reader.has_message_available():
            found.append((await reader.read_next(20_000)).data())
        assert found == numbers("m", 5)
    async with await client.create_reader(topic, ids[2]) as reader:
        assert (await reader.read_next(20_000)).data() == b"m3"
        await reader.seek(ids[0])
        assert (await reader.read_next(20_000)).data() == b"m1"
    async with await client.create_reader(topic, ids[4]) as reader:
        assert not await reader.has_message_available()
    async with await client.create_reader(topic, ids[4], start_message_id_inclusive=True) as reader:
        assert await reader.has_message_available()
        assert (await reader.read_next(20_000)).data() == b"m4"
    async with await client.create_reader(topic, MessageId.latest, start_message_id_inclusive=True) as reader:
        assert await reader.has_message_available()
        assert (await reader.read_next(20_000)).data() == b"m4"
        assert not await reader.has_message_available()
    async with await client.create_reader(topic, MessageId.latest) as reader:
        assert not await reader.has_message_available()
        await publish(client, topic, b"later")
        assert await reader.has_message_available()
        assert (await reader.read_next(20_000)).data() == b"later"


async def test_a_reader_of_partitions_reads_them_all(
    client: Client, shared_vela: VelaProcess, topic: str
) -> None:
    await partitioned(shared_vela, topic, 2)
    ids = await publish(client, topic, *numbers("m", 20))
    async with await client.create_reader(topic, MessageId.earliest) as reader:
        found = [await reader.read_next(20_000) for _ in range(20)]
        assert sorted(message.data() for message in found) == sorted(numbers("m", 20))
        assert not await reader.has_message_available()
    with pytest.raises(InvalidConfiguration, match="2 partitions"):
        await client.create_reader(topic, ids[0])


async def test_a_readers_listener_gets_every_message(client: Client, topic: str) -> None:
    await publish(client, topic, *numbers("m", 50))
    found: list[bytes] = []

    async def listen(_: Consumer, message: Message) -> None:
        found.append(message.data())

    async with await client.create_reader(
        topic, MessageId.earliest, reader_listener=listen, receiver_queue_size=5
    ):
        await until(lambda: len(found) == 50, "50 messages")
    assert found == numbers("m", 50)


async def test_a_table_view_has_the_newest_value_of_each_key_and_follows(client: Client, topic: str) -> None:
    for value in (b"1", b"2"):
        await publish(client, topic, value, key="a")
    await publish(client, topic, b"3", key="b")
    await publish(client, topic, b"no key")
    async with await client.create_table_view(topic) as view:
        assert dict.fromkeys(view) == {"a": None, "b": None}
        assert (view.get("a"), view["b"], len(view), view.get("c")) == (b"2", b"3", 2, None)
        heard: list[tuple[str, bytes | None]] = []
        view.for_each_and_listen(lambda key, value: heard.append((key, value)))
        await publish(client, topic, b"4", key="c")
        await publish(client, topic, b"", key="a")
        await until(lambda: len(heard) == 4, "two changes")
        assert heard == [("a", b"2"), ("b", b"3"), ("c", b"4"), ("a", None)]
        assert "a" not in view


async def test_a_seek_that_is_wrong_for_one_topic_moves_none(client: Client, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "ab"]
    consumer = await client.subscribe(names, "s")
    for name in names:
        await publish(client, name, *numbers(name[-1], 2))
    messages = await take(consumer, 4)
    with pytest.raises(InvalidConfiguration, match="not -1"):
        await consumer.seek(lambda name: 1 if name == names[0] else -1)
    with pytest.raises(Timeout):
        await consumer.receive(300)
    other = await client.subscribe(f"{topic}-other", "s")
    await publish(client, f"{topic}-other", b"x")
    foreign = (await other.receive(20_000)).message_id()
    with pytest.raises(InvalidConfiguration, match="names no topic of"):
        await consumer.seek(foreign)
    with pytest.raises(InvalidConfiguration, match="is a message of"):
        await (await client.subscribe(names[0], "alone")).seek(foreign)
    with pytest.raises(Timeout):
        await other.receive(300)
    consumer.acknowledge(messages)
    await consumer.close()
    again = await client.subscribe(names, "s")
    first = min(message.message_id() for message in messages if message.topic_name() == names[0])
    await again.seek(first)  # the consumer that received this message is closed
    assert (await again.receive(20_000)).data() == b"a1"


@pytest.mark.parametrize("start", [None, 5, "earliest"])
async def test_a_reader_starts_at_a_message_id(client: Client, topic: str, start: Any) -> None:
    with pytest.raises(InvalidConfiguration, match="start_message_id must be a MessageId"):
        await client.create_reader(topic, start)
