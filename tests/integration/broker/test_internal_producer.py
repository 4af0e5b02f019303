"""The broker's own producer: durable receipts, topics that are unloaded while it sends, refusals in words."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from broker.core.client_identity import ClientIdentity
from broker.core.entry import FLAG_BATCH, FLAG_ORDERING_KEY
from broker.core.errors import (
    BrokerError,
    MessageTooLarge,
    NotAllowed,
    PersistenceFailed,
    ProducerBusy,
    SendOutcomeUnknown,
    ServiceNotReady,
    TopicNotFound,
)
from broker.core.topic_name import TopicName
from broker.log.sends import Receipt, SendRequest
from broker.producers.internal_producer import InternalProducer
from broker.producers.requests import ProducerRequest, ProducerSink
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics
from tests.support.broker_harness import BrokerRun, one_row, rows, running
from tests.support.postgres_proxy import Moment
from tests.support.waiting import until
from vela.wire.entry import Compression, OutgoingMessage, decode_messages, encode_single, parse_header

NOW_MS = 1_700_000_000_000
APPEND = 'INSERT INTO "vela_entry_1"'


def entry(payload: bytes = b"x") -> bytes:
    return encode_single(producer_name="p", sequence_id=0, publish_time_ms=NOW_MS, payload=payload)


async def test_an_awaited_send_is_durable_and_keeps_every_field(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own")
    data = entry()
    receipt = await producer.send(data, messages=3, flags=FLAG_BATCH, key_hash=77, deliver_at_ms=NOW_MS)
    assert one_row(
        run.database_url,
        "SELECT ledger_id, entry_id, messages, flags, key_hash, deliver_at_ms, data FROM vela_entry",
    ) == (receipt.ledger_id, receipt.entry_id, 3, FLAG_BATCH, 77, NOW_MS, data)
    assert (await producer.send(data)).sequence_id == 3
    await producer.close()
    assert run.topic().producers == {}


async def test_an_entry_that_no_frame_has_room_for_is_compressed_or_refused(run: BrokerRun) -> None:
    """A client that gets too large a frame closes its connection, reconnects, and gets the same frame again."""
    producer = await InternalProducer.open(run.broker, "t", name="own")
    consumer = await run.consumer(permits=10)
    payloads = b"x" * 20_000, b"small"
    for payload in payloads:
        await producer.publish(
            OutgoingMessage(payload=payload), publish_time_ms=NOW_MS, max_message_bytes=1024
        )
        with pytest.raises(MessageTooLarge):
            await producer.publish(
                OutgoingMessage(payload=Random(1).randbytes(20_000)),
                publish_time_ms=NOW_MS,
                max_message_bytes=1024,
            )
    await consumer.has(2)
    stored = [each.entry.data for each in consumer.deliveries]
    assert [parse_header(data).compression for data in stored] == [Compression.LZ4, Compression.NONE]
    decoded = [decode_messages(data, max_message_bytes=20_000)[0].payload for data in stored]
    assert decoded == list(payloads)


async def test_a_message_is_encoded_under_the_producers_own_name(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own")
    consumer = await run.consumer(permits=10)
    message = OutgoingMessage(
        payload=b"hello", properties={"a": "b"}, key="k", event_time_ms=5, ordering_key=b"o"
    )
    await producer.publish(message, publish_time_ms=NOW_MS, max_message_bytes=1024, key_hash=9)
    await consumer.has(1)
    stored = consumer.deliveries[0].entry
    assert (stored.key_hash, stored.flags) == (9, FLAG_ORDERING_KEY)
    header = parse_header(stored.data)
    assert (header.producer_name, header.publish_time_ms, header.ordering_key) == ("own", NOW_MS, b"o")
    (decoded,) = decode_messages(stored.data, max_message_bytes=100)
    assert (decoded.payload, decoded.properties, decoded.key, decoded.event_time_ms) == (
        b"hello",
        {"a": "b"},
        "k",
        5,
    )


async def test_sends_keep_their_order_and_no_more_than_the_bound_are_under_way(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own", max_pending=7)
    attached = run.topic().producers["own"]
    most = 0
    send = attached.send

    def counting(request: object) -> None:
        nonlocal most
        send(request)  # type: ignore[arg-type]
        most = max(most, attached._pending)

    attached.send = counting  # type: ignore[method-assign]
    receipts = await asyncio.gather(*(producer.send(entry(b"%d" % n)) for n in range(60)))
    assert [each.entry_id for each in receipts] == list(range(60))
    assert most == 7


async def test_the_producer_opens_again_after_its_topic_was_unloaded(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own")
    first = await producer.send(entry())
    run.topic().log.close()
    sends = [asyncio.create_task(producer.send(entry(b"%d" % n))) for n in range(20)]
    receipts: list[Receipt] = await asyncio.gather(*sends)
    positions = [(each.ledger_id, each.entry_id) for each in (first, *receipts)]
    assert positions == sorted(positions)
    assert len(rows(run.database_url, "SELECT 1 FROM vela_entry")) == 21
    assert list(run.topic().producers) == ["own"]


async def test_sends_without_a_receipt_when_the_topic_is_closed_have_an_unknown_outcome(
    run: BrokerRun,
) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own")
    trap = run.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    sends = [asyncio.create_task(producer.send(entry())) for _ in range(3)]
    await asyncio.wait_for(trap.caught.wait(), 8)
    run.topic().log.close()
    answers = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(each, SendOutcomeUnknown) for each in answers), answers
    trap.release()
    await producer.send(entry())


async def test_a_refused_send_raises_an_error_and_the_next_one_works(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own")
    await producer.send(entry())
    rows(run.database_url, "ALTER TABLE vela_entry_1 ADD CONSTRAINT test_small CHECK (length(data) < 500)")
    with pytest.raises(BrokerError):
        await producer.send(entry(b"x" * 1000))
    assert (await producer.send(entry())).entry_id == 1


async def test_opening_an_invalid_topic_raises_its_error(run: BrokerRun) -> None:
    with pytest.raises(TopicNotFound):
        await InternalProducer.open(run.broker, "absent", name="own", create_topic=False)
    with pytest.raises(NotAllowed):
        await InternalProducer.open(run.broker, "t", name="no\0name")


async def test_opening_a_name_in_use_fails_after_a_while(run: BrokerRun) -> None:
    first = await InternalProducer.open(run.broker, "t", name="own")
    with pytest.raises(ProducerBusy):
        await InternalProducer.open(run.broker, "t", name="own", reopen_s=0.2)
    await first.close()
    await InternalProducer.open(run.broker, "t", name="own")


class MovingBroker:
    """A broker whose only topic is moving, except at first."""

    last_sequence_id = -1

    def __init__(self) -> None:
        self.openings = 0
        self.go_on = asyncio.Event()
        self.sink: ProducerSink | None = None

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        return 0

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> MovingBroker:
        self.openings += 1
        if self.sink is not None:
            await self.go_on.wait()
            raise ServiceNotReady("the topic is moving")
        self.sink = sink
        return self

    def send(self, request: SendRequest) -> None:
        raise AssertionError("closed producers take no sends")

    async def close(self) -> None:
        return

    def detach(self) -> None:
        return


async def test_all_sends_that_wait_for_a_moving_topic_get_its_error_together() -> None:
    broker = MovingBroker()
    producer = await InternalProducer.open(broker, "t", name="own", reopen_s=0)
    assert broker.sink is not None
    broker.sink.on_producer_closed(None)
    sends = [asyncio.create_task(producer.send(entry())) for _ in range(3)]
    await until(lambda: broker.openings == 2, "another opening")
    broker.go_on.set()
    answers = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(each) for each in answers] == [ServiceNotReady] * 3
    assert broker.openings == 2
    with pytest.raises(ServiceNotReady):
        await producer.send(entry())
    assert broker.openings == 3


class LockLostBroker(MovingBroker):
    """A broker that has lost its lock while it is first asked for the number of partitions."""

    def __init__(self, error: BrokerError) -> None:
        super().__init__()
        self.error = error
        self.asked = 0

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        self.asked += 1
        if self.asked == 1:
            raise self.error
        return 0


async def test_opening_waits_while_the_number_of_partitions_cannot_be_read() -> None:
    broker = LockLostBroker(ServiceNotReady("the broker lock is lost"))
    await InternalProducer.open(broker, "t", name="own")
    assert (broker.asked, broker.openings) == (2, 1)
    for refused, reopen_s in (ServiceNotReady("the broker lock is lost"), 0.0), (TopicNotFound("none"), 30.0):
        broker = LockLostBroker(refused)
        with pytest.raises(type(refused)):
            await InternalProducer.open(broker, "t", name="own", reopen_s=reopen_s)
        assert (broker.asked, broker.openings) == (1, 0)


async def test_an_initial_subscription_is_created_with_the_topic(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "dead", name="own", initial_subscription="look")
    await producer.send(entry())
    assert run.subscription("dead", "look").cursor.backlog_messages == 1


async def test_partitions_take_turns_and_a_key_keeps_to_one(broker_url: str) -> None:
    async with running(broker_url) as run:
        await repeat_until_done(
            run.broker.pool,
            lambda connection: topics.create_topic(
                connection, TopicName.parse("many"), partitions=3, policies={}
            ),
            what="creating a topic",
        )
        producer = await InternalProducer.open(run.broker, "many", name="own")
        for _ in range(6):
            await producer.send(entry())
        counts = [run.topic(f"many-partition-{index}").log.ledgers.total_entries for index in range(3)]
        assert counts == [2, 2, 2]
        for _ in range(4):
            await producer.send(entry(), key_hash=4)
        counts = [run.topic(f"many-partition-{index}").log.ledgers.total_entries for index in range(3)]
        assert counts == [2, 6, 2]


async def test_a_closed_producer_refuses_sends(run: BrokerRun) -> None:
    producer = await InternalProducer.open(run.broker, "t", name="own")
    under_way = asyncio.create_task(producer.send(entry()))
    await asyncio.sleep(0)
    await producer.close()
    await producer.close()
    assert (await under_way).entry_id == 0
    with pytest.raises(PersistenceFailed, match="closed"):
        await producer.send(entry())
