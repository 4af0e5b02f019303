"""Key_Shared in a running broker: messages of a key keep their order while consumers come, go, crash and stall."""

from __future__ import annotations

import random

import pytest

from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
from broker.core.entry import FLAG_CHUNK, FLAG_LAST_CHUNK
from broker.core.errors import ConsumerAssignFailed, SubscriptionBusy
from broker.core.hash_slots import SlotRange, slot_of_key
from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from tests.support.broker_harness import BrokerRun, ConsumerProbe, eventually, one_row, running
from vela.wire.entry import with_checksum
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

KEY_SHARED, SHARED = SubscriptionType.KEY_SHARED, SubscriptionType.SHARED


def sticky(*ranges: tuple[int, int]) -> KeySharedPolicy:
    return KeySharedPolicy(sticky=True, ranges=tuple(SlotRange(*each) for each in ranges))


@pytest.mark.row("I9")
@pytest.mark.parametrize("consistent_hashing", [True, False])
@pytest.mark.parametrize("cache_bytes", [0, 64 << 20])
async def test_messages_of_a_key_keep_their_order_while_consumers_come_and_go(
    broker_url: str, consistent_hashing: bool, cache_bytes: int
) -> None:
    keys = [slot_of_key(b"key-%d" % number) for number in range(40)]
    chance = random.Random(7)
    async with running(
        broker_url,
        tail_cache_bytes=cache_bytes,
        key_shared_consistent_hashing=consistent_hashing,
    ) as run:
        producer = await run.producer()
        slots: dict[Position, int] = {}
        acked: dict[int, list[Position]] = {}
        here: list[ConsumerProbe] = []
        sent = 0

        def take(probe: ConsumerProbe, limit: int) -> None:
            """Process some of the delivered messages in order, as an application does."""
            for _ in range(min(limit, len(probe.deliveries))):
                position = probe.positions[0]
                del probe.deliveries[0]
                probe.ack(position)
                probe.flow(1)
                acked.setdefault(slots[position], []).append(position)

        for turn in range(60):
            for _ in range(20):
                producer.send(slot=keys[sent % len(keys)])
                sent += 1
            await producer.has_receipts(sent)
            for receipt in producer.receipts[len(slots) :]:
                slots[Position(receipt.ledger_id, receipt.entry_id)] = keys[len(slots) % len(keys)]
            choice = chance.random()
            if len(here) < 2 or (choice < 0.3 and len(here) < 6):
                here.append(
                    await run.consumer(type_=KEY_SHARED, name=f"c{turn}", permits=chance.randint(1, 60))
                )
            elif choice < 0.5:
                leaver = here.pop(chance.randrange(len(here)))
                assert leaver.consumer is not None
                leaver.consumer.detach()
            for probe in here:
                take(probe, chance.randint(0, 30))
        while sum(map(len, acked.values())) < sent:
            await eventually(lambda: any(probe.deliveries for probe in here), "the rest to come")
            for probe in here:
                take(probe, 1000)
        for slot, positions in acked.items():
            assert positions == sorted(positions), f"slot {slot} was processed out of order"
        dispatcher = run.subscription().dispatcher
        assert isinstance(dispatcher, KeySharedDispatcher)
        assert dispatcher.draining() == []
        assert run.subscription().cursor.mark_delete == max(slots)


async def test_other_keys_are_delivered_while_one_consumer_stalls(run: BrokerRun) -> None:
    producer = await run.producer()
    stalled = await run.consumer(type_=KEY_SHARED, name="s", key_shared=sticky((0, 99)))
    quick = await run.consumer(type_=KEY_SHARED, name="q", key_shared=sticky((100, 65535)), permits=1000)
    for number in range(200):
        producer.send(slot=50 if number % 2 else 500)
    await quick.has(100)
    assert stalled.deliveries == []
    stalled.flow(1000)
    await stalled.has(100)
    assert stalled.positions == sorted(stalled.positions)


async def test_overlapping_ranges_are_refused_and_create_nothing(run: BrokerRun) -> None:
    with pytest.raises(ConsumerAssignFailed, match="must name its hash ranges"):
        await run.consumer(type_=KEY_SHARED, key_shared=KeySharedPolicy(sticky=True))
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (0,)
    await run.consumer(type_=KEY_SHARED, name="a", key_shared=sticky((0, 99)))
    with pytest.raises(ConsumerAssignFailed, match="overlaps 0-99 of consumer a"):
        await run.consumer(type_=KEY_SHARED, name="b", key_shared=sticky((99, 200)))
    with pytest.raises(SubscriptionBusy, match="another Key_Shared mode"):
        await run.consumer(type_=KEY_SHARED, name="c")
    with pytest.raises(SubscriptionBusy, match="1 consumer of type Key_Shared is connected"):
        await run.consumer(type_=SHARED, name="d")
    assert len(run.subscription().consumers) == 1


async def test_a_consumer_of_another_mode_may_attach_when_no_other_is_connected(run: BrokerRun) -> None:
    first = await run.consumer(type_=KEY_SHARED, key_shared=sticky((0, 99)))
    assert first.consumer is not None
    first.consumer.detach()
    second = await run.consumer(type_=KEY_SHARED, permits=10)
    await (await run.producer()).publish(3)
    await second.has(3)


def chunk(uuid: str, chunk_id: int, of: int) -> tuple[bytes, int]:
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1,
        uuid=uuid,
        chunk_id=chunk_id,
        num_chunks_from_msg=of,
        total_chunk_msg_size=of,
    ).SerializeToString()
    data = with_checksum(len(metadata).to_bytes(4, "big") + metadata + b"x")
    return data, FLAG_CHUNK | (FLAG_LAST_CHUNK if chunk_id == of - 1 else 0)


@pytest.mark.parametrize("type_", [SHARED, KEY_SHARED])
async def test_the_chunks_of_a_message_go_to_one_consumer(run: BrokerRun, type_: SubscriptionType) -> None:
    producer = await run.producer()
    consumers = [await run.consumer(type_=type_, name=f"c{number}", permits=2) for number in range(4)]
    for chunk_id in range(3):
        for number in range(8):
            data, flags = chunk(f"message-{number}", chunk_id, 3)
            producer.send(data=data, flags=flags)
    await producer.has_receipts(24)

    def uuids(probe: ConsumerProbe) -> set[bytes]:
        entries = [bytes(delivery.entry.data) for delivery in probe.deliveries]
        return {data[data.index(b"message-") :][:9] for data in entries}

    def delivered() -> int:
        return sum(len(probe.deliveries) for probe in consumers)

    await eventually(lambda: delivered() >= 6, "the first permits to be used")
    for _ in range(24):
        for probe in consumers:
            probe.flow(1)
    await eventually(lambda: delivered() == 24, "everything to come")
    for number, probe in enumerate(consumers):
        for other in consumers[number + 1 :]:
            assert not uuids(probe) & uuids(other)


@pytest.mark.parametrize("type_", [SHARED, KEY_SHARED])
async def test_a_consumer_that_leaves_inside_a_chunked_message_passes_on_the_whole_message(
    run: BrokerRun, type_: SubscriptionType
) -> None:
    producer = await run.producer()
    first = await run.consumer(type_=type_, name="first", permits=10)
    for chunk_id in range(2):
        data, flags = chunk("u", chunk_id, 3)
        producer.send(data=data, flags=flags)
    await first.has(2)
    others = [await run.consumer(type_=type_, name=f"c{number}", permits=10) for number in range(3)]
    data, flags = chunk("u", 2, 3)
    producer.send(data=data, flags=flags)
    await first.has(3)
    assert first.consumer is not None
    first.consumer.detach()
    await eventually(lambda: any(len(probe.deliveries) == 3 for probe in others), "one to get all three")


async def test_a_chunk_that_waits_for_its_consumer_delays_no_other(run: BrokerRun) -> None:
    """The chunk's consumer has no permits. Others get their messages, and the dispatcher does not loop in vain."""
    producer = await run.producer()
    holder = await run.consumer(name="holder", permits=1)
    data, flags = chunk("u", 0, 2)
    producer.send(data=data, flags=flags)
    await holder.has(1)
    other = await run.consumer(name="other", permits=100)
    data, flags = chunk("u", 1, 2)
    producer.send(data=data, flags=flags)
    await producer.publish(20)
    await other.has(20)
    assert len(holder.deliveries) == 1
    assert run.subscription().dispatcher.next_read() is not None
    holder.flow(1)
    await holder.has(2)


async def test_readers_with_hash_ranges_share_a_topic_between_them(run: BrokerRun) -> None:
    producer = await run.producer()
    for number in range(60):
        producer.send(slot=slot_of_key(b"key-%d" % number))
    await eventually(lambda: len(producer.receipts) == 60, "receipts")
    lower, upper = [
        await run.consumer(
            subscription=f"reader-{at}",
            type_=SubscriptionType.EXCLUSIVE,
            permits=100,
            durable=False,
            start=EARLIEST,
            key_shared=KeySharedPolicy(sticky=True, ranges=(SlotRange(at * 32768, at * 32768 + 32767),)),
        )
        for at in (0, 1)
    ]
    slots = {
        Position(receipt.ledger_id, receipt.entry_id): slot_of_key(b"key-%d" % number)
        for number, receipt in enumerate(producer.receipts)
    }
    expected = [[each for each in slots if slots[each] // 32768 == half] for half in (0, 1)]
    await lower.has(len(expected[0]))
    await upper.has(len(expected[1]))
    assert [lower.positions, upper.positions] == expected
    producer.send(slot=1)
    producer.send(slot=65535)
    await lower.has(len(expected[0]) + 1)
    await upper.has(len(expected[1]) + 1)
