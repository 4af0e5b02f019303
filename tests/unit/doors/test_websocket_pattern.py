"""`/ws/v3/consumer` with `topicsPattern`: existing topics, new topics, and topics that a role may not consume."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.access.permissions import Grants, Permission
from broker.doors.websocket.application import websocket_application
from broker.storage.access import StoredAccess
from tests.support.tokens import ENVIRONMENT, token
from tests.support.waiting import until
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.test_websocket_consumer import ack, store
from tests.unit.doors.wire_client import settle

TARGET = (
    "/ws/v3/consumer/s?subscriptionInitialPosition=Earliest&topicsPattern=persistent://public/default/a.*"
)
DEFAULT = "persistent://public/default"


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


def connect(broker: FakeBroker, query: str = "", *, role: str = "") -> Peer:
    headers = [(b"authorization", b"Bearer " + token(role).encode())] if role else []
    return Peer(websocket_application(broker), TARGET + query, headers=headers)


def come(broker: FakeBroker, *names: str) -> None:
    for name in names:
        broker.topic(name)
    broker.topic_lists.changed("public/default")


def subscribed(broker: FakeBroker) -> set[str]:
    return {each.name.local_name for each in broker.topics.values() if "s" in each.subscriptions}


def joins() -> list[asyncio.Task[Any]]:
    return [each for each in asyncio.all_tasks() if each.get_name().startswith("new topics of")]


async def pushed(peer: Peer, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def has_all() -> bool:
        found.extend(peer.heard())
        return len(found) >= count

    await until(has_all, f"{count} messages")
    return found


async def test_a_pattern_consumes_existing_and_new_topics(broker: FakeBroker) -> None:
    store(broker, b"1", topic="a1")
    store(broker, b"2", topic="b1")
    peer = await connect(broker).opened()
    (first,) = await pushed(peer, 1)
    assert (first["payload"], subscribed(broker)) == ("MQ==", {"a1"})
    store(broker, b"3", topic="a2")
    store(broker, b"4", topic="b2")
    come(broker)
    (second,) = await pushed(peer, 1)
    assert (second["payload"], subscribed(broker)) == ("Mw==", {"a1", "a2"})
    await peer.tell(ack(second))
    assert broker.topic("a2").subscriptions["s"].acked == {0}
    assert broker.topic("a1").subscriptions["s"].acked == set()


async def test_a_pattern_may_begin_without_a_topic(broker: FakeBroker) -> None:
    peer = await connect(broker, "&pullMode=true").opened()
    await peer.tell({"type": "isEndOfTopic"})
    assert peer.heard() == [{"endOfTopic": False}]
    store(broker, b"1", b"2", topic="a1")
    come(broker)
    await until(lambda: subscribed(broker) == {"a1"}, "the subscription")
    await peer.tell({"type": "permit", "permitMessages": 1})
    assert len(await pushed(peer, 1)) == 1


async def test_an_ack_before_the_first_topic_closes_the_socket(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.tell({"messageId": "CAEQAQ=="})
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1008


async def test_a_new_topic_that_is_taken_closes_the_socket_with_the_reason(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    other = Peer(websocket_application(broker), "/ws/v2/consumer/persistent/public/default/a1/s")
    await other.opened()
    come(broker, "a1")
    await until(lambda: peer.transport.closed is not None, "the close")
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1012
    assert "a new topic cannot be consumed" in peer.transport.closed[1]


async def test_a_closed_socket_consumes_no_new_topic(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.leave()
    come(broker, "a1")
    assert broker.topic_lists._namespaces == {}
    assert subscribed(broker) == set()


async def test_a_socket_that_closes_while_new_topics_join_leaves_no_consumer(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    other = Peer(websocket_application(broker), "/ws/v2/consumer/persistent/public/default/a2/s")
    await other.opened()
    broker.opening.clear()
    come(broker, "a1")
    (join,) = await until(joins, "the join")
    await peer.leave()
    broker.opening.set()
    await join
    assert broker.topic("a1").subscriptions["s"].consumers == []


async def test_new_topics_that_wait_when_the_socket_closes_get_no_subscription(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    broker.opening.clear()
    come(broker, "a1")
    await until(joins, "the first join")
    come(broker, "a2")
    waiting = await until(lambda: joins()[1:] and joins(), "the second join")
    await peer.leave()
    broker.opening.set()
    await asyncio.gather(*waiting)
    assert broker.topic("a2").subscriptions == {}


async def test_a_topic_that_is_deleted_before_the_socket_subscribes_is_not_created_again(
    broker: FakeBroker,
) -> None:
    store(broker, b"1", topic="a1")
    store(broker, b"2", topic="a2")
    broker.opening.clear()
    peer = connect(broker)
    await settle()
    del broker.topics[f"{DEFAULT}/a2"]
    broker.opening.set()
    await peer.opened()
    (only,) = await pushed(peer, 1)
    assert (only["payload"], subscribed(broker), list(broker.topics)) == ("MQ==", {"a1"}, [f"{DEFAULT}/a1"])


async def test_dead_letter_topics_of_the_socket_are_not_consumed(broker: FakeBroker) -> None:
    store(broker, b"1", topic="a1")
    peer = await connect(broker, "&maxRedeliverCount=1&subscriptionType=Shared").opened()
    await pushed(peer, 1)
    come(broker, "a1-s-DLQ", "a2")
    await until(lambda: "a2" in subscribed(broker), "the other topic")
    assert subscribed(broker) == {"a1", "a2"}


@pytest.mark.parametrize(
    ("query", "taker"),
    [
        ("", "a1-s-DLQ"),
        ("&deadLetterTopic=persistent://public/default/a", "a"),
    ],
)
async def test_existing_dead_letter_topics_of_the_socket_are_not_consumed(
    broker: FakeBroker, query: str, taker: str
) -> None:
    store(broker, b"1", topic="a1")
    store(broker, b"dead", topic=taker)
    peer = await connect(broker, f"&maxRedeliverCount=1&subscriptionType=Shared{query}").opened()
    (only,) = await pushed(peer, 1)
    assert (only["payload"], subscribed(broker)) == ("MQ==", {"a1"})


async def test_retry_letters_need_named_topics(broker: FakeBroker) -> None:
    status, reason = await connect(broker, "&retryEnable=true").refused()
    assert (status, "retryEnable needs topics" in reason) == (400, True)


async def test_topics_that_the_role_may_not_consume_are_left_out() -> None:
    broker = FakeBroker(environment=ENVIRONMENT)
    grants = Grants(
        namespaces={"public/default": {"till": {Permission.PRODUCE}}},
        topics={f"{DEFAULT}/a2": {"till": {Permission.CONSUME}}},
    )
    broker.access.take(StoredAccess(grants=grants, revoked_tokens=frozenset()))
    store(broker, b"1", topic="a1")
    store(broker, b"2", topic="a2")
    peer = await connect(broker, role="till").opened()
    (only,) = await pushed(peer, 1)
    assert (only["payload"], subscribed(broker)) == ("Mg==", {"a2"})
