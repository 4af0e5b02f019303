"""A forced delete of a topic or subscription: its clients create it again, or fail if the policy forbids that."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from uuid import uuid4

import pytest

from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from tests.support.waiting import until
from vela.aio.client import Client
from vela.aio.consumers.pattern import PatternConsumer
from vela.core.consuming.state import ConsumerState
from vela.errors import NotConnected, TopicNotFound, VelaError
from vela.options import InitialPosition

WHAT = pytest.mark.parametrize("what", ["topics", "subscriptions"])


@pytest.fixture
def topic() -> str:
    """A topic in a separate namespace, whose policies a test may change."""
    return f"persistent://public/{uuid4().hex[:8]}/t"


async def vela(process: VelaProcess, *arguments: str) -> str:
    """Run one `vela` command and return its output."""

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-m", "vela.cli", *arguments],
            env={
                **os.environ,
                "VELA_CONSOLE_URL": process.console_url,
                "VELA_USER": "admin",
                "VELA_PASSWORD": ADMIN_PASSWORD,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return await asyncio.to_thread(run)


async def deleted(process: VelaProcess, what: str, topic: str) -> str:
    name = [topic] if what == "topics" else [topic, "s"]
    return await vela(process, what, "delete", *name, "--force", "--yes")


@WHAT
async def test_clients_that_reconnect_create_what_was_deleted(
    what: str, shared_vela: VelaProcess, tcp_client: Client, topic: str
) -> None:
    consumer = await tcp_client.subscribe(
        topic, "s", initial_position=InitialPosition.Earliest, ack_receipt_enabled=True
    )
    producer = await tcp_client.create_producer(topic)
    first = await producer.send(b"before")
    await consumer.acknowledge(await consumer.receive(20_000))
    assert "that reconnect create it again" in await deleted(shared_vela, what, topic)
    second = await producer.send(b"after")
    expected = [b"after"] if what == "topics" else [b"before", b"after"]
    assert [(await consumer.receive(20_000)).data() for _ in expected] == expected
    assert (second.ledger_id() == first.ledger_id()) == (what == "subscriptions")


async def test_a_pattern_leaves_a_deleted_topic_and_reads_it_again_once_it_exists(
    shared_vela: VelaProcess, tcp_client: Client, topic: str
) -> None:
    producer = await tcp_client.create_producer(topic)
    namespace = topic.rpartition("/")[0]
    consumer = await tcp_client.subscribe(re.compile(f"{namespace}/.*"), "s")
    assert isinstance(consumer, PatternConsumer)
    assert consumer.topics() == [topic]
    await producer.close()
    await deleted(shared_vela, "topics", topic)
    async with asyncio.timeout(20):
        while consumer.topics():
            await consumer.look()
    assert topic not in await vela(
        shared_vela, "topics", "list", "--namespace", namespace.partition("://")[2]
    )
    producer = await tcp_client.create_producer(topic)
    await consumer.look()
    assert consumer.topics() == [topic]
    await producer.send(b"new")
    assert (await consumer.receive(20_000)).data() == b"new"


@WHAT
async def test_a_consumer_that_may_not_create_what_was_deleted_fails(
    what: str, shared_vela: VelaProcess, tcp_client: Client, topic: str
) -> None:
    consumer = await tcp_client.subscribe(topic, "s")
    producer = await tcp_client.create_producer(topic)
    await producer.send(b"before")
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    policies = ("auto_create_topics=false", "auto_create_subscriptions=false")
    await vela(shared_vela, "policies", "set", namespace, *policies, "--yes")
    assert "that reconnect are refused" in await deleted(shared_vela, what, topic)
    await until(lambda: consumer.state is ConsumerState.FAILED, "the consumer to fail")
    with pytest.raises(NotConnected, match="has failed: create a new one"):
        await consumer.receive()
    if what == "topics":
        with pytest.raises(TopicNotFound):
            await asyncio.wait_for(producer.send(b"after"), 20)
    else:
        await producer.send(b"after")
    with pytest.raises(VelaError, match="connecting creates none") as caught:
        await tcp_client.subscribe(topic, "s")
    assert type(caught.value).__name__ == ("TopicNotFound" if what == "topics" else "SubscriptionNotFound")
