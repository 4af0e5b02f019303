"""Examples of errors."""

from __future__ import annotations

from typing import Any

from tests.acceptance.client.both.place import Place, example, refusal


@example(["ConsumerBusy", "ConsumerBusy", ""])
def a_subscription_that_is_taken(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    first = client.subscribe(topic, "s")
    found = [
        refusal(lambda: client.subscribe(topic, "s")),
        refusal(lambda: client.subscribe(topic, "s", consumer_type=api.ConsumerType.Shared)),
    ]
    first.close()
    found.append(refusal(lambda: client.subscribe(topic, "s")))
    client.close()
    return found


@example("ProducerBusy")
def a_producer_name_that_is_taken(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    client.create_producer(topic, producer_name="mine")
    found = refusal(lambda: client.create_producer(topic, producer_name="mine"))
    client.close()
    return found


@example(["AlreadyClosed"] * 4)
def closed_things(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    consumer.close()
    producer.close()
    found = [refusal(lambda: consumer.receive(100)), refusal(lambda: producer.send(b"x"))]
    client.close()
    return [
        *found,
        refusal(lambda: client.subscribe(topic, "s")),
        refusal(lambda: client.create_producer(topic)),
    ]


@example("CumulativeAcknowledgementNotAllowedError")
def cumulative_on_shared(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", consumer_type=api.ConsumerType.Shared)
    client.create_producer(topic).send(b"x")
    message = consumer.receive(20_000)
    found = refusal(lambda: consumer.acknowledge_cumulative(message))
    client.close()
    return found


@example(["InvalidTopicName", "InvalidTopicName"])
def invalid_names(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    found = [
        refusal(lambda: client.subscribe("persistent://a/b", "s")),
        refusal(lambda: client.create_producer("nonsense://public/default/x")),
    ]
    client.close()
    return found


@example(["ValueError"] * 4)
def invalid_arguments(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    found = [
        refusal(lambda: client.create_producer(topic, batching_enabled=True, chunking_enabled=True)),
        refusal(lambda: client.subscribe(12, "s")),
        refusal(lambda: api.ConsumerDeadLetterPolicy(0)),
        refusal(lambda: api.ConsumerKeySharedPolicy(api.KeySharedMode.Sticky)),
    ]
    client.close()
    return [
        "ValueError" if name in ("ValueError", "InvalidConfiguration", "TypeError") else name
        for name in found
    ]
