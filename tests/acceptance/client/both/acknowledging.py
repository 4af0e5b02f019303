"""Examples of acknowledging: batches, stored message ids, refusals, and dead letters (S4)."""

from __future__ import annotations

from typing import Any

from tests.acceptance.client.both.place import WAIT_MS, Place, example, refusal


def publish_batch(client: Any, topic: str, count: int) -> None:
    """Publish messages b"0", b"1" … in one entry."""
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    for number in range(count):
        producer.send_async(b"%d" % number, lambda result, message_id: None)
    producer.flush()
    producer.close()


def texts(consumer: Any) -> str:
    """Receive messages until none comes for a while, and return their payloads as one text."""
    found = ""
    while True:
        try:
            found += consumer.receive(400).data().decode()
        except Exception:
            return found


def _part_of_a_batch(api: Any, place: Place, *, batch_index: bool) -> Any:
    client = api.Client(place.url(api))
    found = []
    for cumulative in (False, True):
        topic = place.topic()
        options = {"batch_index_ack_enabled": batch_index}
        consumer = client.subscribe(topic, "s", **options)
        publish_batch(client, topic, 5)
        messages = [consumer.receive(WAIT_MS) for _ in range(5)]
        if cumulative:
            consumer.acknowledge_cumulative(messages[2])
        else:
            consumer.acknowledge(messages[0])
            consumer.acknowledge(messages[3])
        consumer.close()
        again = client.subscribe(topic, "s", **options)
        found.append(texts(again))
    client.close()
    return found


@example(["124", "34"])
def part_of_a_batch_with_batch_index_acks(api: Any, place: Place) -> Any:
    return _part_of_a_batch(api, place, batch_index=True)


@example(["01234", "01234"])
def part_of_a_batch_without_batch_index_acks(api: Any, place: Place) -> Any:
    return _part_of_a_batch(api, place, batch_index=False)


@example("")
def the_whole_of_a_batch(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    publish_batch(client, topic, 5)
    messages = [consumer.receive(WAIT_MS) for _ in range(5)]
    for message in (*reversed(messages), *messages):  # a second ack of a message changes nothing
        consumer.acknowledge(message)
    consumer.close()
    rest = texts(client.subscribe(topic, "s"))
    client.close()
    return rest


@example("0")
def an_id_that_was_written_down(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(2):
        producer.send(b"%d" % number)
    written = [consumer.receive(WAIT_MS).message_id().serialize() for _ in range(2)]
    consumer.acknowledge(api.MessageId.deserialize(written[1]))
    consumer.close()
    rest = texts(client.subscribe(topic, "s"))
    client.close()
    return rest


@example("CumulativeAcknowledgementNotAllowedError")
def a_cumulative_acknowledgement_on_shared(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", consumer_type=api.ConsumerType.Shared)
    client.create_producer(topic).send(b"x")
    message = consumer.receive(WAIT_MS)
    refused = refusal(lambda: consumer.acknowledge_cumulative(message))
    client.close()
    return refused


@example(("012", "012"))
def a_negative_acknowledgement_on_exclusive(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", negative_ack_redelivery_delay_ms=100)
    producer = client.create_producer(topic)
    for number in range(3):
        producer.send(b"%d" % number)
    messages = [consumer.receive(WAIT_MS) for _ in range(3)]
    consumer.negative_acknowledge(messages[1])
    first = "".join(message.data().decode() for message in messages)
    client_again = texts(consumer)
    client.close()
    return first, client_again


@example(("bad", "key", {"a": "b", "REAL_TOPIC": "topic 0"}, ["bad", "bad", "bad", "good"]))
def contents_of_a_dead_letter(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    graveyard = client.subscribe(f"{topic}-s-DLQ", "look")
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=api.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=api.ConsumerDeadLetterPolicy(2),
    )
    producer = client.create_producer(topic)
    producer.send(b"bad", properties={"a": "b"}, partition_key="key")
    producer.send(b"good")
    seen = []
    for _ in range(4):
        message = consumer.receive(WAIT_MS)
        seen.append(message.data().decode())
        if message.data() == b"bad":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    letter = graveyard.receive(WAIT_MS)
    properties = letter.properties()
    assert properties["ORIGIN_MESSAGE_ID"]
    kept = {name: place.plain(properties[name]) for name in ("a", "REAL_TOPIC")}
    result = letter.data().decode(), letter.partition_key(), kept, sorted(seen)
    client.close()
    return result
