"""WATCH_TOPIC_LIST on one connection: answers, updates, limits, and peers that do not read."""

from __future__ import annotations

import dataclasses

import pytest

from broker.doors.binary.wire.answers.lookup import topics_hash
from broker.listening.connection_limits import ConnectionLimits
from tests.support.raw_pulsar import watch_topic_list, watch_topic_list_close
from tests.support.waiting import until
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import WireClient
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

EU = "persistent://shop/eu/"


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


def watch(watcher_id: int = 1, *, pattern: str = "shop/eu/a.*", known_hash: str | None = None) -> bytes:
    return watch_topic_list(
        "shop/eu", pattern, watcher_id=watcher_id, request_id=watcher_id + 10, known_hash=known_hash
    )


async def told(client: WireClient, frame: bytes) -> BaseCommand:
    client.tell(frame)
    for _ in range(50):  # on a busy machine, the connection may wait for several turns
        await client.settle()
        if heard := client.heard():
            (answer,) = heard
            return answer
    raise AssertionError("the broker did not answer")


async def update(client: WireClient) -> tuple[list[str], list[str], str]:
    heard: list[BaseCommand] = []

    def has_heard() -> bool:
        heard.extend(client.heard())
        return bool(heard)

    await until(has_heard, "an update")
    (command,) = heard
    body = command.watchTopicUpdate
    return list(body.new_topics), list(body.deleted_topics), body.topics_hash


def make(broker: FakeBroker, *names: str) -> None:
    for name in names:
        broker.topic(EU + name)
    broker.topic_lists.changed("shop/eu")


async def test_the_client_learns_that_the_broker_has_topic_watchers(broker: FakeBroker) -> None:
    client = WireClient(broker, connect=False)
    client.tell(commands.connect(client_version="test", protocol_version=21))
    (connected,) = client.heard()
    assert connected.connected.feature_flags.supports_topic_watchers
    assert connected.connected.feature_flags.supports_topic_watcher_reconcile


async def test_a_watcher_gets_the_list_and_then_each_change(broker: FakeBroker) -> None:
    make(broker, "a1", "b1")
    client = WireClient(broker)
    answer = (await told(client, watch())).watchTopicListSuccess
    assert (answer.request_id, answer.watcher_id, list(answer.topic)) == (11, 1, [f"{EU}a1"])
    make(broker, "a2", "b2", "a3")
    added, removed, topics_hash = await update(client)
    assert (added, removed) == ([f"{EU}a2", f"{EU}a3"], [])
    del broker.topics[f"{EU}a1"], broker.topics[f"{EU}b1"]
    broker.topic_lists.changed("shop/eu")
    assert (await update(client))[:2] == ([], [f"{EU}a1"])
    assert topics_hash != answer.topics_hash


async def test_the_hash_says_that_nothing_has_changed(broker: FakeBroker) -> None:
    make(broker, "a1", "b1")
    client = WireClient(broker)
    first = (await told(client, watch())).watchTopicListSuccess
    again = (await told(client, watch(known_hash=first.topics_hash))).watchTopicListSuccess
    assert (list(again.topic), again.topics_hash) == ([], first.topics_hash)
    listed = (
        await told(
            client,
            commands.get_topics_of_namespace(
                "shop/eu", request_id=1, pattern="shop/eu/a.*", known_hash=first.topics_hash
            ),
        )
    ).getTopicsOfNamespaceResponse
    assert (listed.filtered, listed.changed, list(listed.topics)) == (True, False, [])


async def test_a_list_that_clients_cannot_read_is_refused_and_the_connection_stays() -> None:
    broker = FakeBroker(max_message_bytes=1024)
    make(broker, *(f"a{number:030}" for number in range(300)))
    client = WireClient(broker)
    for question in (
        commands.get_topics_of_namespace("shop/eu", request_id=11, pattern="shop/eu/a.*"),
        watch(),
    ):
        refused = (await told(client, question)).error
        assert (refused.request_id, refused.error) == (11, ServerError.NOT_ALLOWED_ERROR.value)
        assert "300 topics" in refused.message
        assert "narrower pattern" in refused.message
    few = await told(client, watch(pattern="shop/eu/a.*7"))
    assert len(few.watchTopicListSuccess.topic) == 30


async def test_a_change_that_one_frame_has_no_room_for_comes_in_several_updates() -> None:
    broker = FakeBroker(max_message_bytes=1024)
    client = WireClient(broker)
    await told(client, watch())
    known: set[str] = set()

    async def hear(expected: set[str]) -> int:
        """Return the number of updates after which the client knows the expected list."""
        updates: list[BaseCommand] = []

        def knows_all() -> bool:
            for command in client.heard():
                updates.append(command)
                body = command.watchTopicUpdate
                known.difference_update(body.deleted_topics)
                known.update(body.new_topics)
                assert command.ByteSize() <= 1024 + FRAME_PADDING_BYTES
                assert body.topics_hash == topics_hash(frozenset(known))
            return known == expected

        await until(knows_all, "the last update")
        return len(updates)

    first = [f"a{number:030}" for number in range(300)]
    make(broker, *first)
    assert await hear({EU + each for each in first}) > 1
    broker.topics.clear()
    make(broker, "a", first[7])
    assert await hear({f"{EU}a", EU + first[7]}) > 1


async def test_a_pattern_that_the_broker_does_not_take_is_left_to_the_client(broker: FakeBroker) -> None:
    make(broker, "a1")
    client = WireClient(broker)
    frame = commands.get_topics_of_namespace("shop/eu", request_id=1, pattern="(?=x)x")
    listed = (await told(client, frame)).getTopicsOfNamespaceResponse
    assert (listed.filtered, list(listed.topics)) == (False, [f"{EU}a1"])
    refused = await told(client, watch(pattern="(?=x)x"))
    assert refused.error.error == int(ServerError.NOT_ALLOWED_ERROR)
    assert (await told(client, watch())).HasField("watchTopicListSuccess")  # the id is free again


async def test_a_closed_watcher_hears_nothing(broker: FakeBroker) -> None:
    client = WireClient(broker)
    await told(client, watch(1))
    await told(client, watch(2))
    assert (await told(client, watch_topic_list_close(1, request_id=3))).success.request_id == 3
    assert (await told(client, watch_topic_list_close(1, request_id=4))).success.request_id == 4
    make(broker, "a1")
    assert (await update(client))[0] == [f"{EU}a1"]  # the update of watcher 2


async def test_a_lost_connection_ends_its_watchers(broker: FakeBroker) -> None:
    client = WireClient(broker)
    await told(client, watch())
    client.connection.lost()
    broker.topic_lists.changed("shop/eu")
    assert broker.topic_lists._namespaces == {}


async def test_a_peer_that_does_not_read_gets_one_update_later(broker: FakeBroker) -> None:
    client = WireClient(broker)
    await told(client, watch())
    client.link.writable = False
    make(broker, "a1")
    await until(lambda: not broker.topic_lists._namespaces["shop/eu"].is_refreshing, "the end of the reads")
    del broker.topics[f"{EU}a1"]
    make(broker, "a2")
    await until(lambda: not broker.topic_lists._namespaces["shop/eu"].is_refreshing, "the end of the reads")
    assert client.heard() == []
    client.link.writable = True
    client.connection.writable_again()
    assert (await update(client))[:2] == ([f"{EU}a2"], [])


async def test_one_watcher_too_many_is_refused_until_another_closes() -> None:
    broker = FakeBroker()
    broker.settings = dataclasses.replace(broker.settings, max_topic_watchers_per_connection=2)
    broker.connections = ConnectionLimits(broker.settings)
    client = WireClient(broker)
    for watcher_id in (1, 2, 2):  # the second watcher 2 replaces the first one
        assert (await told(client, watch(watcher_id))).HasField("watchTopicListSuccess")
    refused = await told(client, watch(3))
    assert "the most that VELA_MAX_TOPIC_WATCHERS_PER_CONNECTION allows" in refused.error.message
    assert broker.connections.times_reached == {"VELA_MAX_TOPIC_WATCHERS_PER_CONNECTION": 1}
    await told(client, watch_topic_list_close(1, request_id=3))
    assert (await told(client, watch(3))).HasField("watchTopicListSuccess")
