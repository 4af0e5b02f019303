"""What clients can make the broker keep in memory: properties and schemas."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from broker.core.client_identity import ClientIdentity
from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import IncompatibleSchema, NotAllowed, TopicNotFound
from broker.core.policies import Policies, SchemaCompatibility
from broker.core.schemas.schema import SchemaDefinition, SchemaType, StoredSchema
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.producers.producer import Producer
from broker.producers.requests import ProducerRequest
from broker.producers.schemas import MAX_NAMES_BYTES, MAX_TOPIC_BYTES, Schemas, check_schema
from broker.subscription.consumer import Consumer
from broker.subscription.requests import SubscribeRequest
from broker.topics.client_requests import MAX_PROPERTIES_BYTES, ClientRequests

ORDERS = TopicName.parse("orders")
CLIENT = ClientIdentity(address="test:1", client_version="", face="binary")
SCHEMA = SchemaDefinition(type=SchemaType.JSON, data=bytes(1_000_000))
UNUSED = cast(Any, None)
LARGEST = {"é": "x" * (MAX_PROPERTIES_BYTES - 2)}


class NoTopics:
    async def open(self, name: TopicName, *, create: bool) -> None:
        raise TopicNotFound(f"there is no {name}")


@pytest.fixture
def requests() -> ClientRequests:
    return ClientRequests(cast(Any, NoTopics()), UNUSED, UNUSED, UNUSED, UNUSED)


async def test_the_properties_of_a_producer_are_limited(requests: ClientRequests) -> None:
    with pytest.raises(TopicNotFound):
        await ask_to_publish(requests, LARGEST)
    with pytest.raises(NotAllowed, match="of the producer have 65537 bytes, the limit is 65536"):
        await ask_to_publish(requests, LARGEST | {"y": ""})


@pytest.mark.parametrize(("field", "whose"), [("properties", "consumer"), ("subscription_properties", "sub")])
async def test_the_properties_of_consumer_and_subscription_are_limited(
    requests: ClientRequests, field: str, whose: str
) -> None:
    with pytest.raises(TopicNotFound):
        await ask_to_subscribe(requests, {field: LARGEST})
    with pytest.raises(NotAllowed, match=f"of the {whose}.* have 65537 bytes, the limit is 65536"):
        await ask_to_subscribe(requests, {field: LARGEST | {"y": ""}})


async def ask_to_publish(requests: ClientRequests, properties: dict[str, str]) -> None:
    request = ProducerRequest(topic=ORDERS, name=None, properties=properties)
    await requests.open_producer(request, CLIENT, UNUSED)


async def ask_to_subscribe(requests: ClientRequests, properties: dict[str, Any]) -> None:
    request = SubscribeRequest(
        topic=ORDERS, subscription="s", type=SubscriptionType.SHARED, consumer_name="c", **properties
    )
    await requests.subscribe(request, CLIENT, UNUSED)


def test_a_producer_does_not_keep_its_schema() -> None:
    request = ProducerRequest(topic=ORDERS, name="p", schema=SCHEMA)
    producer = Producer(
        key=1, topic=UNUSED, name="p", request=request, identity=CLIENT, sink=UNUSED, now_ms=0
    )
    assert producer.request.schema is None
    assert producer.request.name == "p"


def test_a_consumer_does_not_keep_its_schema() -> None:
    request = SubscribeRequest(
        topic=ORDERS, subscription="s", type=SubscriptionType.SHARED, consumer_name="c", schema=SCHEMA
    )
    consumer = Consumer(
        subscription=UNUSED,
        request=request,
        identity=CLIENT,
        sink=UNUSED,
        dispatch=DispatchConsumer(key=1, name="c"),
        now_ms=0,
    )
    assert consumer.request.schema is None
    assert consumer.request.subscription == "s"


def test_the_properties_of_a_schema_are_limited() -> None:
    names = {"é": "x" * (MAX_NAMES_BYTES - 2)}
    check_schema(SchemaDefinition(type=SchemaType.STRING, data=b"", properties=names))
    with pytest.raises(IncompatibleSchema, match="have 65537 bytes, the limit is 65536"):
        check_schema(SchemaDefinition(type=SchemaType.STRING, data=b"", name="n", properties=names))


async def test_the_schemas_of_a_topic_are_limited_together() -> None:
    schemas, definition = Schemas(UNUSED), json.dumps({"type": "string", "doc": "x" * (1 << 20)}).encode()
    older = SchemaDefinition(type=SchemaType.AVRO, data=definition)
    count = MAX_TOPIC_BYTES // len(definition)
    schemas._known["t"] = [StoredSchema(version=number, schema=older) for number in range(count)]
    newer = SchemaDefinition(type=SchemaType.AVRO, data=definition.replace(b"xx", b"xy", 1))
    with pytest.raises(IncompatibleSchema, match=f"the {count + 1} schema versions of t would have"):
        await schemas.add("t", newer, Policies())


async def test_names_and_properties_of_schemas_count_as_well() -> None:
    schemas, properties = Schemas(UNUSED), {"a": "x" * (MAX_NAMES_BYTES - 1)}
    older = SchemaDefinition(type=SchemaType.AVRO, data=b'"string"', properties=properties)
    count = MAX_TOPIC_BYTES // MAX_NAMES_BYTES
    schemas._known["t"] = [StoredSchema(version=number, schema=older) for number in range(count)]
    newer = SchemaDefinition(type=SchemaType.AVRO, data=b' "string"')
    with pytest.raises(IncompatibleSchema, match=f"the {count + 1} schema versions of t would have"):
        await schemas.add("t", newer, Policies())


@pytest.mark.parametrize("asks", ["consumer", "admin"])
async def test_others_get_turns_while_a_schema_is_compared_with_all_versions(asks: str) -> None:
    schemas, turns = Schemas(UNUSED), 0
    older = SchemaDefinition(type=SchemaType.AVRO, data=b'"string"')
    schemas._known["t"] = [StoredSchema(version=number, schema=older) for number in range(10)]
    newer = SchemaDefinition(type=SchemaType.AVRO, data=b' "string"')

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    policies = Policies(schema_compatibility=SchemaCompatibility.FULL_TRANSITIVE)
    if asks == "consumer":
        await schemas.of_consumer("t", newer, policies, is_idle=False)
    else:
        await schemas.check_next("t", newer, policies.schema_compatibility)
    task.cancel()
    assert turns >= 9
