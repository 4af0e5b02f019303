"""Examples of producers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.acceptance.client.both.place import WAIT_MS, Place, example, refusal


def received(consumer: Any, count: int) -> list[Any]:
    """Receive this many messages and acknowledge each."""
    found: list[Any] = []
    for _ in range(count):
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        found.append(message)
    return found


@example(([b"one", b"two", b"three"], "Timeout"))
def publish_and_consume(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for content in (b"one", b"two", b"three"):
        producer.send(content)
    data = [message.data() for message in received(consumer, 3)]
    nothing = refusal(lambda: consumer.receive(timeout_millis=50))
    client.close()
    return data, nothing


@example(
    {
        "data": b"content",
        "value": b"content",
        "properties": {"a": "1", "ü": "é"},
        "partition_key": "key",
        "ordering_key": "order",
        "event_timestamp": 1234567,
        "producer_name": "both",
        "redelivery_count": 0,
        "topic_name": "topic 0",
        "is_published_now": True,
        "partition": -1,
        "batch_index": -1,
        "has_null_value": False,
        "encryption_context": None,
        "nothing": ({}, "", "", 0),
    }
)
def everything_a_message_carries(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="both")
    producer.send(
        b"content",
        properties={"a": "1", "ü": "é"},
        partition_key="key",
        ordering_key="order",
        event_timestamp=1234567,
    )
    producer.send(b"")
    message, bare = received(consumer, 2)
    found = {
        "data": message.data(),
        "value": message.value(),
        "properties": message.properties(),
        "partition_key": message.partition_key(),
        "ordering_key": message.ordering_key(),
        "event_timestamp": message.event_timestamp(),
        "producer_name": message.producer_name(),
        "redelivery_count": message.redelivery_count(),
        "topic_name": place.plain(message.topic_name()),
        "is_published_now": message.publish_timestamp() > 1_700_000_000_000,
        "partition": message.message_id().partition(),
        "batch_index": message.message_id().batch_index(),
        "has_null_value": message.has_null_value(),
        "encryption_context": message.encryption_context(),
        "nothing": (bare.properties(), bare.partition_key(), bare.ordering_key(), bare.event_timestamp()),
    }
    client.close()
    return found


@example((["Ok"] * 10, True, list(range(10)), [b"%d" % number for number in range(10)]))
def batches(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500)
    answers: list[tuple[Any, Any]] = []
    for number in range(10):
        producer.send_async(b"%d" % number, lambda result, message_id: answers.append((result, message_id)))
    producer.flush()
    messages = received(consumer, 10)
    client.close()
    return (
        [result.name for result, _ in answers],
        [str(message_id) for _, message_id in answers] == [str(message.message_id()) for message in messages],
        [message.message_id().batch_index() for message in messages],
        [message.data() for message in messages],
    )


@example(dict.fromkeys(("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"), True))
def compression(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    content = b"compressible " * 1000
    same = {}
    for name in ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"):
        producer = client.create_producer(topic, compression_type=getattr(api.CompressionType, name))
        producer.send(content)
        same[name] = received(consumer, 1)[0].data() == content
    client.close()
    return same


@example({"alone": True, "in a batch": True})
def messages_that_compression_makes_small_enough(api: Any, place: Place) -> Any:
    large = bytes(3 << 20)
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    alone = client.create_producer(topic, compression_type=api.CompressionType.ZLib)
    alone.send(large * 2)
    whole = received(consumer, 1)[0].data() == large * 2
    batching = client.create_producer(
        topic,
        compression_type=api.CompressionType.ZLib,
        batching_enabled=True,
        batching_max_allowed_size_in_bytes=20 << 20,
        batching_max_publish_delay_ms=500,
    )
    for _ in range(2):
        batching.send_async(large, lambda result, message_id: None)
    batching.flush()
    members = [message.data() == large for message in received(consumer, 2)]
    client.close()
    return {"alone": whole, "in a batch": all(members)}


@example((-1, [0, 1, 2], 12))
def sequence_ids(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="counting")
    before = producer.last_sequence_id()
    ids = []
    for _ in range(3):
        producer.send(b"x")
        ids.append(producer.last_sequence_id())
    producer.send(b"y", sequence_id=12)
    given = producer.last_sequence_id()
    client.close()
    return before, ids, given


@example(([b"0", b"1", b"2"], -1, 2, 5))
def sending_without_a_callback(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, producer_name="p", initial_sequence_id=-1, max_pending_messages=1, block_if_queue_full=True
    )
    before = producer.last_sequence_id()
    for number in range(3):
        producer.send_async(b"%d" % number, None)  # without a callback
    producer.flush()
    data = [message.data() for message in received(consumer, 3)]
    after = producer.last_sequence_id()
    producer.close()
    again = client.create_producer(topic, producer_name="p", initial_sequence_id=4)
    again.send(b"3")
    given = again.last_sequence_id()
    client.close()
    return data, before, after, given


@example(("Result.Ok", "Result.Ok", "ConsumerType.Shared", {"a": "1"}))
def printed_results_and_changed_properties(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    results: list[Any] = []
    producer.send_async(b"x", lambda result, message_id: results.append(result), properties={"a": "1"})
    producer.flush()
    message = received(consumer, 1)[0]
    message.properties()["a"] = 2
    client.close()
    return str(results[0]), f"{results[0]}", "%s" % api.ConsumerType.Shared, message.properties()  # noqa: UP031


@example(True)
def delayed_delivery(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", consumer_type=api.ConsumerType.Shared)
    producer = client.create_producer(topic)
    producer.send(b"later", deliver_after=timedelta(milliseconds=400))
    producer.send(b"now")
    first, second = received(consumer, 2)
    client.close()
    return (first.data(), second.data()) == (b"now", b"later")


@example((True, True))
def chunks(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    content = bytes(range(256)) * (12 * 4096)
    with_chunks = client.create_producer(topic, chunking_enabled=True)
    with_chunks.send(content)
    same = received(consumer, 1)[0].data() == content
    without = client.create_producer(topic)
    too_big = refusal(lambda: without.send(content)) == "MessageTooBig"
    client.close()
    return same, too_big


@example((b"secret", False, ["key"]))
def encryption(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", crypto_key_reader=place.keys(api))
    producer = client.create_producer(topic, encryption_key="key", crypto_key_reader=place.keys(api))
    producer.send(b"secret")
    message = received(consumer, 1)[0]
    context = message.encryption_context()
    keys = [key.key for key in context.keys()]  # noqa: SIM118 - it is not a dictionary
    client.close()
    return message.data(), context.is_decryption_failed(), keys


@example((True, b"", ""))
def a_null_value(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(None, partition_key="gone")
    message = received(consumer, 1)[0]
    client.close()
    return message.has_null_value(), message.data(), message.properties().get("none", "")


@example(["ProducerBusy", ""])
def an_exclusive_producer(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    mine = client.create_producer(topic, access_mode=api.ProducerAccessMode.Exclusive)
    refused = refusal(lambda: client.create_producer(topic, access_mode=api.ProducerAccessMode.Exclusive))
    mine.close()
    after = refusal(lambda: client.create_producer(topic, access_mode=api.ProducerAccessMode.Exclusive))
    client.close()
    return [refused if refused != "ProducerFenced" else "ProducerBusy", after]
