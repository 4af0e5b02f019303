"""Examples of consumers: acknowledgement, redelivery, listeners, several consumers on one subscription."""

from __future__ import annotations

import queue
import threading
from typing import Any

from tests.acceptance.client.both.place import WAIT_MS, Place, example, refusal
from tests.acceptance.client.both.publishing import received


def publish(client: Any, topic: str, count: int, **options: Any) -> None:
    """Publish messages b"0", b"1" …"""
    producer = client.create_producer(topic, **options)
    for number in range(count):
        producer.send(b"%d" % number)
    producer.close()


@example(([b"1", b"1"], [0, 1]))
def negative_acknowledgement(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(
        topic, "s", consumer_type=api.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    publish(client, topic, 2)
    messages = []
    for _ in range(3):
        message = consumer.receive(WAIT_MS)
        if message.data() == b"0":
            consumer.acknowledge(message)
            continue
        messages.append(message)
        if len(messages) == 1:
            consumer.negative_acknowledge(message)
    client.close()
    return [message.data() for message in messages], [message.redelivery_count() for message in messages]


@example([b"3", b"4"])
def cumulative_acknowledgement(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    publish(client, topic, 5)
    messages = [consumer.receive(WAIT_MS) for _ in range(5)]
    consumer.acknowledge_cumulative(messages[2])
    consumer.close()
    again = client.subscribe(topic, "s")
    rest = [message.data() for message in received(again, 2)]
    client.close()
    return rest


@example([b"0", b"1", b"2"])
def unacknowledged_messages_come_again(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    publish(client, topic, 3)
    for _ in range(3):
        consumer.receive(WAIT_MS)
    consumer.redeliver_unacknowledged_messages()
    again = [message.data() for message in received(consumer, 3)]
    client.close()
    return again


@example(([b"0", b"1", b"2"], "InvalidConfiguration"))
def a_listener(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    heard: queue.Queue[Any] = queue.Queue()

    def listen(consumer: Any, message: Any) -> None:
        consumer.acknowledge(message)
        heard.put(message.data())

    consumer = client.subscribe(topic, "s", message_listener=listen)
    publish(client, topic, 3)
    data = [heard.get(timeout=WAIT_MS / 1000) for _ in range(3)]
    by_hand = refusal(lambda: consumer.receive(100))
    client.close()
    return data, by_hand


@example(([b"0"], [b"1", b"2"]))
def a_paused_listener(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    heard: queue.Queue[Any] = queue.Queue()
    consumer = client.subscribe(topic, "s", message_listener=lambda _, message: heard.put(message.data()))
    producer = client.create_producer(topic)
    producer.send(b"0")
    before = [heard.get(timeout=WAIT_MS / 1000)]
    consumer.pause_message_listener()
    producer.send(b"1")
    producer.send(b"2")
    threading.Event().wait(0.2)
    assert heard.empty()
    consumer.resume_message_listener()
    after = [heard.get(timeout=WAIT_MS / 1000) for _ in range(2)]
    client.close()
    return before, after


@example([4, 4, 2])
def receiving_in_batches(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", batch_receive_policy=api.ConsumerBatchReceivePolicy(4, -1, 1000))
    publish(client, topic, 10)
    sizes: list[int] = []
    while sum(sizes) < 10:
        batch = consumer.batch_receive()
        sizes.append(len(batch))
        for message in batch:
            consumer.acknowledge(message)
    client.close()
    return sizes


@example((True, 100, 10))
def keys_stay_with_one_consumer(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    seen: list[tuple[int, str]] = []
    done = threading.Event()

    def listener(number: int) -> Any:
        def listen(consumer: Any, message: Any) -> None:
            consumer.acknowledge(message)
            seen.append((number, message.partition_key()))
            if len(seen) == 100:
                done.set()

        return listen

    for number in range(2):
        client.subscribe(
            topic, "s", consumer_type=api.ConsumerType.KeyShared, message_listener=listener(number)
        )
    producer = client.create_producer(topic)
    for number in range(100):
        producer.send(b"x", partition_key=f"key-{number % 10}")
    done.wait(WAIT_MS / 1000)
    client.close()
    owners: dict[str, set[int]] = {}
    for number, key in seen:
        owners.setdefault(key, set()).add(number)
    return all(len(each) == 1 for each in owners.values()), len(seen), len(owners)


@example(([b"0", b"1", b"2"], [b"0", b"1", b"2"], True))
def failover(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    heard: queue.Queue[tuple[Any, bytes]] = queue.Queue()

    def listen(consumer: Any, message: Any) -> None:
        consumer.acknowledge(message)
        heard.put((consumer.consumer_name(), message.data()))

    consumers = {
        name: client.subscribe(
            topic, "s", consumer_type=api.ConsumerType.Failover, consumer_name=name, message_listener=listen
        )
        for name in ("a", "b")
    }
    publish(client, topic, 3)
    before = [heard.get(timeout=WAIT_MS / 1000) for _ in range(3)]
    active = before[0][0]
    consumers.pop(active).close()
    publish(client, topic, 3)
    after = [heard.get(timeout=WAIT_MS / 1000) for _ in range(3)]
    client.close()
    one_at_a_time = {name for name, _ in before} == {active} and {name for name, _ in after} == set(consumers)
    return [data for _, data in before], [data for _, data in after], one_at_a_time


@example(["s", "named", "topic 0", True, False])
def names_of_a_consumer(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", consumer_name="named", properties={"team": "billing"})
    connected = consumer.is_connected()
    names = [consumer.subscription_name(), consumer.consumer_name(), place.plain(consumer.topic())]
    consumer.close()
    found = [*names, connected, consumer.is_connected()]
    client.close()
    return found


@example(("dead", 3, True))
def dead_letters(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic, dead = place.topic(), place.topic()
    graveyard = client.subscribe(dead, "s")
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=api.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=api.ConsumerDeadLetterPolicy(2, dead),
    )
    client.create_producer(topic).send(b"dead")
    count = 0
    for _ in range(3):
        consumer.negative_acknowledge(consumer.receive(WAIT_MS))
        count += 1
    message = graveyard.receive(WAIT_MS)
    properties = message.properties()
    client.close()
    return message.data().decode(), count, "REAL_TOPIC" in properties


@example(({b"0", b"1", b"2"}, 3))
def several_topics(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topics = [place.topic() for _ in range(3)]
    consumer = client.subscribe(topics, "s")
    for number, topic in enumerate(topics):
        client.create_producer(topic).send(b"%d" % number)
    messages = received(consumer, 3)
    client.close()
    return {message.data() for message in messages}, len({message.topic_name() for message in messages})


@example((3, 30, {0, 1, 2}))
def partitions(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic(partitions=3)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(30):
        producer.send(b"x", partition_key=f"key-{number}")
    messages = received(consumer, 30)
    count = len(client.get_topic_partitions(topic))
    client.close()
    return count, len(messages), {message.message_id().partition() for message in messages}
