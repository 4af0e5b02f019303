"""All connections together hold a bounded number of bytes without a receipt, however slow the database is."""

from __future__ import annotations

import asyncio
from contextlib import closing

import psycopg
import pytest

from broker.doors.binary.tcp import TcpListener
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, running
from vela.wire.binary import commands
from vela.wire.binary.frames import FrameDecoder
from vela.wire.entry import encode_single
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

KIB = 1024
MIB = 1024 * KIB
LIMIT_BYTES = MIB
PEERS = 12
MESSAGES = 32
MESSAGE_BYTES = 64 * KIB


class Peer:
    """A producer's connection that sends everything at once and does not wait for receipts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, topic: str) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(MIB)
        self._heard: list[BaseCommand] = []
        self.topic = topic

    @classmethod
    async def open(cls, port: int, topic: str) -> Peer:
        """Connect and open the producer."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port), topic)
        peer.tell(commands.connect(client_version="flood", protocol_version=21))
        assert (await peer.hear()).type == BaseCommand.CONNECTED
        peer.tell(commands.producer(topic, producer_id=1, request_id=1))
        assert (await peer.hear()).type == BaseCommand.PRODUCER_SUCCESS
        return peer

    def tell(self, *frames: bytes) -> None:
        """Send a command."""
        self._writer.write(b"".join(frames))

    def flood(self) -> None:
        """Send every message."""
        for number in range(MESSAGES):
            payload = (b"%03d" % number).ljust(MESSAGE_BYTES)
            data = encode_single(producer_name="p", sequence_id=number, publish_time_ms=0, payload=payload)
            self.tell(*commands.send(1, number, data))

    async def hear(self) -> BaseCommand:
        """Return the next command other than PING."""
        while True:
            while not self._heard:
                data = await asyncio.wait_for(self._reader.read(65536), 20)
                assert data, "the broker closed"
                self._heard += [BaseCommand.FromString(each.command) for each in self._decoder.feed(data)]
            command = self._heard.pop(0)
            if command.type != BaseCommand.PING:
                return command

    async def receipts(self) -> list[int]:
        """Return the sequence ids of the receipts of all messages."""
        heard = [await self.hear() for _ in range(MESSAGES)]
        return [each.send_receipt.sequence_id for each in heard]

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


def held_bytes(run: BrokerRun) -> int:
    """Return the bytes that wait in the logs of all topics."""
    topics = run.broker.topics.loaded.values()
    queued = [send for topic in topics for send in topic.log.queue]
    in_flight = [send for topic in topics if (batch := topic.log.in_flight) for send in batch.sends]
    return sum(len(request.data) for _, request in [*queued, *in_flight])


async def test_many_connections_use_bounded_memory_and_everything_is_stored_in_order(
    broker_url: str,
) -> None:
    async with running(broker_url, max_unanswered_publish_bytes=LIMIT_BYTES) as run:
        listener = TcpListener(run.broker)
        await listener.start("127.0.0.1", 0)
        peers = [
            await Peer.open(listener.port, f"persistent://public/default/t{number}")
            for number in range(PEERS)
        ]
        reading = await run.consumer("t0", permits=1000)
        budget = run.broker.publishes
        with closing(psycopg.connect(broker_url)) as slow:
            slow.execute("LOCK TABLE vela_topic_owner IN EXCLUSIVE MODE")  # makes appends wait
            for peer in peers:
                peer.flood()
            await eventually(lambda: budget.pauses >= PEERS, "every publishing connection paused")
            assert held_bytes(run) == budget.size_bytes
            assert LIMIT_BYTES < held_bytes(run) <= LIMIT_BYTES + PEERS * (MESSAGE_BYTES + KIB)
            slow.rollback()
        for peer in peers:
            assert await peer.receipts() == list(range(MESSAGES))
        assert budget.size_bytes == 0
        await reading.has(MESSAGES)
        assert [int(payload[:3]) for payload in reading.payloads] == list(range(MESSAGES))
        for peer in peers:
            await peer.close()
        await listener.stop()


async def test_a_connection_that_does_not_publish_is_read_from(broker_url: str) -> None:
    async with running(broker_url, max_unanswered_publish_bytes=LIMIT_BYTES) as run:
        paused: dict[str, list[bool]] = {"busy": [], "calm": []}
        busy = await run.producer("t1", on_throttled=paused["busy"].append)
        await run.producer("t2", on_throttled=paused["calm"].append)
        for _ in range(40):
            busy.send(bytes(MESSAGE_BYTES))
        assert paused == {"busy": [True], "calm": []}
        await busy.has_receipts(40)
        assert paused == {"busy": [True, False], "calm": []}


@pytest.mark.parametrize("leaves", ["topic", "producer"])
async def test_sends_of_a_producer_that_leaves_are_no_longer_counted(broker_url: str, leaves: str) -> None:
    async with running(broker_url, max_unanswered_publish_bytes=LIMIT_BYTES) as run:
        budget = run.broker.publishes
        gone, stays = await run.producer("t1"), await run.producer("t2")
        for producer in (gone, stays):
            for _ in range(10):
                producer.send(bytes(MESSAGE_BYTES))
        assert budget.size_bytes > LIMIT_BYTES
        if leaves == "topic":
            run.topic("t1").log.fence("another broker took the topic")
            assert LIMIT_BYTES // 2 < budget.size_bytes < LIMIT_BYTES
        else:
            assert gone.producer is not None
            gone.producer.detach()  # the messages that it has sent are still stored
            assert budget.size_bytes > LIMIT_BYTES
        await stays.has_receipts(10)
        await eventually(lambda: budget.size_bytes == 0, "nothing held")


async def test_a_producer_that_two_limits_stop_continues_when_neither_stops_it(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, max_unanswered_publish_bytes=LIMIT_BYTES) as run:
        topic = await run.policies("t", publish_rate_messages=10)
        switched: list[bool] = []
        producer = await run.producer(on_throttled=switched.append)
        for _ in range(20):
            producer.send(bytes(MESSAGE_BYTES))
        await producer.has_receipts(20)
        assert switched == [True], "there is room again, but the rate is spent"
        clock.advance(10_000)
        assert topic.publish_limit is not None
        topic.publish_limit.refilled()
        assert switched == [True, False]
