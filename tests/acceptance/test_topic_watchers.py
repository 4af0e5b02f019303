"""Topic patterns: the broker tells watchers about new topics at once, and Apache's client gets matching topics."""

from __future__ import annotations

import re
import secrets

import pulsar

from tests.support.api import act, create_topic
from tests.support.raw_pulsar import RawPulsar, watch_topic_list, watch_topic_list_close
from tests.support.vela import VelaProcess

PUBLIC = "persistent://public/default"


def watch(peer: RawPulsar, pattern: str, *, known_hash: str | None = None) -> tuple[list[str], str]:
    frame = watch_topic_list("public/default", pattern, watcher_id=7, request_id=9, known_hash=known_hash)
    answer = peer.ask("WATCH_TOPIC_LIST_SUCCESS", frame).watchTopicListSuccess
    return list(answer.topic), answer.topics_hash


def update(peer: RawPulsar) -> tuple[list[str], list[str]]:
    command = peer.hear()
    assert command is not None
    assert command.HasField("watchTopicUpdate"), command
    return list(command.watchTopicUpdate.new_topics), list(command.watchTopicUpdate.deleted_topics)


def updates(peer: RawPulsar, count: int) -> list[str]:
    """Read updates until this many topics are new. The first list may already have some of them."""
    found: list[str] = []
    while len(found) < count:
        found += update(peer)[0]
    return sorted(found)


def test_a_watcher_is_told_about_a_new_topic_whoever_creates_it(shared_vela: VelaProcess) -> None:
    mark = f"w{secrets.token_hex(4)}"
    with RawPulsar(shared_vela.pulsar_url) as peer, RawPulsar(shared_vela.pulsar_url) as other:
        first, _ = watch(peer, f"{PUBLIC}/{mark}-.*")
        assert first == []
        other.open_producer(f"{mark}-a")
        other.open_producer(f"not-{mark}", producer_id=2)
        assert update(peer) == ([f"{PUBLIC}/{mark}-a"], [])
        create_topic(shared_vela, f"{mark}-b", partitions=2)
        parts = [f"{PUBLIC}/{mark}-b-partition-{index}" for index in range(2)]
        assert updates(peer, 2) == parts
        names, topics_hash = watch(peer, f"{PUBLIC}/{mark}-.*")
        assert names == [f"{PUBLIC}/{mark}-a", *parts]
        assert watch(peer, f"{PUBLIC}/{mark}-.*", known_hash=topics_hash) == ([], topics_hash)
        act(shared_vela, "delete_topic", f"{PUBLIC}/{mark}-b", force=False)
        assert update(peer) == ([], parts)
        shared_vela.manage("createtopic", f"public/default/{mark}-c")  # in a separate process
        assert update(peer) == ([f"{PUBLIC}/{mark}-c"], [])
        peer.ask("SUCCESS", watch_topic_list_close(7, request_id=10))


def test_apaches_pattern_consumer_gets_the_topics_that_its_pattern_chooses(shared_vela: VelaProcess) -> None:
    mark = f"w{secrets.token_hex(4)}"
    client = pulsar.Client(shared_vela.pulsar_url, operation_timeout_seconds=20)
    try:
        for name in (f"{mark}-a", f"not-{mark}", f"{mark}-b"):
            client.create_producer(name).send(name.encode())
        consumer = client.subscribe(
            re.compile(f"{PUBLIC}/{mark}-.*"), "s", initial_position=pulsar.InitialPosition.Earliest
        )
        found = {consumer.receive(20_000).data().decode() for _ in range(2)}
        assert found == {f"{mark}-a", f"{mark}-b"}
    finally:
        client.close()
