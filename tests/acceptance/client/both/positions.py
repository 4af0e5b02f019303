"""Examples of positions: seek, readers, table views, message ids, patterns."""

from __future__ import annotations

import re
import time
from typing import Any

from tests.acceptance.client.both.consuming import publish
from tests.acceptance.client.both.place import WAIT_MS, Place, example
from tests.acceptance.client.both.publishing import received
from tests.support.waiting import wait_until


def now_ms() -> int:
    return int(time.time() * 1000)


@example(([b"3", b"4"], [b"2", b"3"], b"0"))
def seeking(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    inclusive = client.subscribe(topic, "t", start_message_id_inclusive=True)
    publish(client, topic, 5)
    message_id = received(consumer, 5)[2].message_id()
    consumer.seek(message_id)
    after = [message.data() for message in received(consumer, 2)]
    inclusive.seek(message_id)
    itself = [message.data() for message in received(inclusive, 2)]
    consumer.seek(api.MessageId.earliest)
    first = received(consumer, 1)[0].data()
    client.close()
    return after, itself, first


@example(b"later")
def seeking_a_time(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"early")
    middle_ms = now_ms() + 1
    wait_until(lambda: now_ms() > middle_ms, "the clock to go on", every_s=0.001)
    producer.send(b"later")
    received(consumer, 2)
    consumer.seek(middle_ms)
    found = received(consumer, 1)[0].data()
    client.close()
    return found


@example((True, True, b"1"))
def message_ids_as_bytes(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    publish(client, topic, 2)
    first, last = (message.message_id() for message in received(consumer, 2))
    kept = api.MessageId.deserialize(first.serialize())
    newest = consumer.get_last_message_id()
    consumer.seek(kept)
    found = consumer.receive(WAIT_MS).data()
    client.close()
    return (
        kept == first,
        (newest.ledger_id(), newest.entry_id()) == (last.ledger_id(), last.entry_id()),
        found,
    )


@example([b"new"])
def unsubscribing_forgets(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s")
    publish(client, topic, 2)
    consumer.unsubscribe()
    again = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"new")
    found = [message.data() for message in received(again, 1)]
    client.close()
    return found


@example(([b"0", b"1", b"2"], True, False, [b"2"], [b"1", b"2"]))
def readers(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    publish(client, topic, 3)
    reader = client.create_reader(topic, api.MessageId.earliest)
    before = reader.has_message_available()
    messages = [reader.read_next(WAIT_MS) for _ in range(3)]
    after = reader.has_message_available()
    second = messages[1].message_id()
    exclusive = client.create_reader(topic, second)
    inclusive = client.create_reader(topic, second, start_message_id_inclusive=True)
    rest = [exclusive.read_next(WAIT_MS).data()]
    with_it = [inclusive.read_next(WAIT_MS).data() for _ in range(2)]
    client.close()
    return [message.data() for message in messages], before, after, rest, with_it


@example(({"a": b"2", "c": b"3"}, 2, None))
def a_table_view(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    producer = client.create_producer(topic)
    for key, value in (("a", b"1"), ("b", b"1"), ("a", b"2"), ("c", b"3"), ("b", b"")):
        producer.send(value, partition_key=key)
    view = client.create_table_view(topic)
    found: dict[str, bytes] = {}
    view.for_each(found.__setitem__)
    size, missing = len(view), view.get("b")
    view.close()
    client.close()
    return found, size, missing


@example({b"0", b"1"})
def a_pattern(api: Any, place: Place) -> Any:
    client = api.Client(place.url(api))
    base = place.topic()
    for number in range(2):
        client.create_producer(f"{base}-match-{number}").close()
    client.create_producer(f"{base}-other").close()
    consumer = client.subscribe(re.compile(f"{base}-match-.*"), "s")
    for number in range(2):
        client.create_producer(f"{base}-match-{number}").send(b"%d" % number)
    client.create_producer(f"{base}-other").send(b"other")
    found = {message.data() for message in received(consumer, 2)}
    client.close()
    return found
