"""A consumer of a partitioned topic, against a scripted broker: partitions that come, fail and are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.scripted_peer import LEDGER_ID, Link, silent
from tests.support.waiting import until
from tests.unit.client.entries import single
from vela.aio.consumers.multi_topics import MultiTopicsConsumer
from vela.core.consuming.state import ConsumerState
from vela.errors import (
    AlreadyClosed,
    BrokerPersistenceError,
    ConsumerBusy,
    NotConnected,
    OperationNotSupported,
)
from vela.message import MessageId
from vela.options import ConsumerBatchReceivePolicy
from vela.wire.binary.enums import ServerError


class Partitions:
    """The topic's partitions, and the SUBSCRIBEs that wait for the test's answer."""

    def __init__(self, desk: Desk, count: int) -> None:
        self.count = count
        self.held: list[tuple[Link, events.Subscribe]] = []
        self.holds = False
        desk.peer.on(events.PartitionMetadata, self._count)
        desk.peer.on(events.Subscribe, self._subscribed)
        self._desk = desk

    def _count(self, link: Link, event: events.PartitionMetadata) -> None:
        link.engine.send_partition_metadata(event.request_id, self.count)

    def _subscribed(self, link: Link, event: events.Subscribe) -> None:
        if self.holds:
            self.held.append((link, event))
        else:
            link.engine.send_success(event.request_id)

    async def consumer(self, **options: Any) -> MultiTopicsConsumer:
        made = await self._desk.client.subscribe(TOPIC, "billing", **options)
        assert isinstance(made, MultiTopicsConsumer)
        return made


async def test_a_consumer_whose_partitions_have_failed_subscribes_to_no_new_one(desk: Desk) -> None:
    partitions = Partitions(desk, 1)
    consumer = await partitions.consumer()

    def no_topic(link: Link, event: events.Lookup) -> None:
        link.engine.send_lookup_failed(event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic")

    desk.peer.on(events.Lookup, no_topic)
    (subscribed,) = desk.peer.of(events.Subscribe)
    desk.peer.link.engine.send_close_consumer(subscribed.consumer_id)
    desk.peer.link.flush()
    with pytest.raises(NotConnected):
        await consumer.receive(5_000)
    assert consumer._updates is not None
    await asyncio.wait((consumer._updates,), timeout=5)
    assert consumer._updates.cancelled()


async def test_a_partition_that_fails_while_another_one_is_being_subscribed_does_not_end_the_consumer(
    desk: Desk,
) -> None:
    partitions = Partitions(desk, 2)
    partitions.holds = True
    opening = asyncio.create_task(partitions.consumer())
    await until(lambda: len(partitions.held) == 2, "two SUBSCRIBEs")
    (link, deleted), (_, slow) = partitions.held

    def no_topic(link: Link, event: events.Lookup) -> None:
        link.engine.send_lookup_failed(event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic")

    desk.peer.on(events.Lookup, no_topic)
    link.engine.send_success(deleted.request_id)
    link.flush()
    await until(lambda: desk.peer.count(events.Flow) == 1, "its permits")
    lookups = desk.peer.count(events.Lookup)
    link.engine.send_close_consumer(deleted.consumer_id)
    link.flush()
    await until(lambda: desk.peer.count(events.Lookup) > lookups, "the lookup that fails")
    link.engine.send_success(slow.request_id)
    link.flush()
    consumer = await opening
    link.deliver(slow.consumer_id, single(b"x"), entry_id=0, ledger_id=LEDGER_ID)
    assert (await consumer.receive(5_000)).data() == b"x"


async def test_a_new_partition_is_subscribed_once_if_two_calls_find_it(desk: Desk) -> None:
    partitions = Partitions(desk, 1)
    consumer = await partitions.consumer()
    partitions.count = 2
    await asyncio.gather(*(consumer.add(TOPIC, is_new=True) for _ in range(2)))
    assert desk.peer.count(events.Subscribe) == 2
    await consumer.close()
    assert desk.peer.count(events.CloseConsumer) == 2


@pytest.mark.parametrize("resumes", [True, False])
async def test_pausing_and_resuming_reach_a_partition_that_is_being_subscribed(
    desk: Desk, resumes: bool
) -> None:
    partitions = Partitions(desk, 1)
    consumer = await partitions.consumer(start_paused=resumes)
    partitions.count, partitions.holds = 2, True
    adding = asyncio.create_task(consumer.add(TOPIC, is_new=True))
    await until(lambda: bool(partitions.held), "the new partition's SUBSCRIBE")
    (consumer.resume if resumes else consumer.pause)()
    ((link, event),) = partitions.held
    link.engine.send_success(event.request_id)
    link.flush()
    await adding
    new = next(each for each in consumer.consumers() if each.consumer_id == event.consumer_id)
    assert new.flow.permits.is_paused is not resumes
    if resumes:
        await until(
            lambda: any(flow.consumer_id == event.consumer_id for flow in desk.peer.of(events.Flow)),
            "permits of the new partition",
        )


async def test_the_queues_of_partitions_grow_when_the_common_queue_runs_dry(desk: Desk) -> None:
    consumer = await Partitions(desk, 2).consumer(
        receiver_queue_size=8, auto_scaled_receiver_queue_size_enabled=True
    )
    busy, quiet = desk.peer.of(events.Subscribe)
    desk.link, desk.consumer_id = desk.peer.link, busy.consumer_id

    def permits(subscribed: events.Subscribe) -> int:
        flows = [flow for flow in desk.peer.of(events.Flow) if flow.consumer_id == subscribed.consumer_id]
        return sum(flow.permits for flow in flows)

    async def settled(size: int) -> None:
        await until(lambda: permits(busy) - desk.next_entry == size, f"{size} permits")

    await settled(1)
    for before, size in ((1, 2), (2, 4), (4, 8), (8, 8)):
        desk.deliver_each(*[b"x"] * before)
        await until(lambda: consumer.statistics().messages_delivered == desk.next_entry, "messages")
        while consumer.receive_nowait() is not None:
            pass
        waiting = consumer.receive_async()
        await settled(size)
        waiting.cancel()
    assert permits(quiet) == 1


async def test_a_batch_receive_ends_when_one_partition_has_used_up_its_room(desk: Desk) -> None:
    partitions = Partitions(desk, 2)
    policy = ConsumerBatchReceivePolicy(max_num_message=100, max_num_bytes=-1, timeout_ms=-1)
    consumer = await partitions.consumer(receiver_queue_size=4, batch_receive_policy=policy)
    busy, _quiet = desk.peer.of(events.Subscribe)
    for number in range(4):
        desk.peer.link.deliver(busy.consumer_id, single(b"x"), entry_id=number)
    assert len(await asyncio.wait_for(consumer.batch_receive(), 5)) == 4


async def test_messages_of_partitions_that_could_not_be_added_together_are_dropped(desk: Desk) -> None:
    partitions = Partitions(desk, 1)
    consumer = await partitions.consumer()
    partitions.count, partitions.holds = 3, True
    adding = asyncio.create_task(consumer.add(TOPIC, is_new=True))
    await until(lambda: len(partitions.held) == 2, "two SUBSCRIBEs")
    assert not desk.peer.of(events.PartitionMetadata)[-1].create, "the topic was perhaps deleted"
    (link, accepted), (_, refused) = partitions.held
    link.engine.send_success(accepted.request_id)
    link.flush()
    await until(lambda: desk.peer.of(events.Flow)[-1].consumer_id == accepted.consumer_id, "its permits")
    link.deliver(accepted.consumer_id, single(b"early"), entry_id=0, ledger_id=LEDGER_ID)
    await until(lambda: len(consumer.queue) == 1, "its message")
    link.engine.send_error(refused.request_id, ServerError.CONSUMER_BUSY, "taken")
    link.flush()
    with pytest.raises(ConsumerBusy):
        await adding
    assert len(consumer.queue) == 0


async def test_a_list_of_topics_shares_the_room_of_all_topics(desk: Desk) -> None:
    topics = [f"{TOPIC}-{letter}" for letter in "abcd"]
    await desk.client.subscribe(
        topics, "billing", receiver_queue_size=10, max_total_receiver_queue_size_across_partitions=20
    )
    await until(lambda: desk.peer.count(events.Flow) == 4, "permits of each topic")
    assert [flow.permits for flow in desk.peer.of(events.Flow)] == [5] * 4


async def test_unsubscribing_can_be_repeated_after_it_failed_for_one_partition(desk: Desk) -> None:
    partitions = Partitions(desk, 2)
    consumer = await partitions.consumer()

    def refuse_the_second(link: Link, event: events.Unsubscribe) -> None:
        if desk.peer.count(events.Unsubscribe) == 2:
            link.engine.send_error(event.request_id, ServerError.PERSISTENCE_ERROR, "not now")
        else:
            link.engine.send_success(event.request_id)

    desk.peer.on(events.Unsubscribe, refuse_the_second)
    with pytest.raises(BrokerPersistenceError):
        await consumer.unsubscribe()
    await consumer.unsubscribe()
    assert desk.peer.count(events.Unsubscribe) == 3
    assert consumer.state is ConsumerState.CLOSED


async def test_a_closed_consumer_of_partitions_cannot_unsubscribe(desk: Desk) -> None:
    consumer = await Partitions(desk, 2).consumer()
    await consumer.close()
    with pytest.raises(AlreadyClosed):
        await consumer.unsubscribe()


async def test_a_list_with_a_wrong_id_acks_nothing_on_any_partition(desk: Desk) -> None:
    consumer = await Partitions(desk, 2).consumer()
    right = MessageId(0, LEDGER_ID, 1, topic=TOPIC)
    wrong = MessageId(1, LEDGER_ID, 1, 4, batch_size=3, topic=TOPIC)
    with pytest.raises(OperationNotSupported):
        consumer.acknowledge([right, wrong])
    await consumer.close()
    assert desk.peer.count(events.Ack) == 0


async def test_the_receipts_of_several_partitions_need_not_be_awaited(desk: Desk) -> None:
    partitions = Partitions(desk, 2)
    consumer = await partitions.consumer(ack_receipt_enabled=True, ack_group_time_ms=0)
    consumer.acknowledge([MessageId(0, LEDGER_ID, 0), MessageId(1, LEDGER_ID, 0)])
    receipts = consumer.acknowledge([MessageId(0, LEDGER_ID, 1), MessageId(1, LEDGER_ID, 1)])
    await until(lambda: desk.peer.count(events.Ack) == 4, "the acks")
    for ack in desk.peer.of(events.Ack):
        assert ack.request_id is not None
        desk.peer.link.engine.send_ack_response(ack.consumer_id, ack.request_id)
    desk.peer.link.flush()
    await asyncio.wait_for(receipts, 5)


async def losing_one_of_two(desk: Desk, caplog: pytest.LogCaptureFixture) -> MultiTopicsConsumer:
    """Return a consumer of two topics, one of which is deleted."""
    gone = f"{TOPIC}-gone"
    consumer = await desk.client.subscribe([TOPIC, gone], "billing")
    assert isinstance(consumer, MultiTopicsConsumer)

    def look_up(link: Link, event: events.Lookup) -> None:
        if event.topic == gone:
            link.engine.send_lookup_failed(event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic")
        else:
            desk.peer.answer(link, event)

    desk.peer.on(events.Lookup, look_up)
    (subscribed,) = (each for each in desk.peer.of(events.Subscribe) if each.topic == gone)
    desk.peer.link.engine.send_close_consumer(subscribed.consumer_id)
    desk.peer.link.flush()
    await until(lambda: "has failed" in caplog.text, "its end")
    return consumer


async def test_a_topic_that_has_failed_does_not_count_for_available_messages(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await losing_one_of_two(desk, caplog)
    assert not await consumer.has_message_available()


async def test_a_topic_that_was_deleted_does_not_prevent_unsubscribing_from_the_others(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await losing_one_of_two(desk, caplog)
    await consumer.unsubscribe()
    assert desk.peer.count(events.Unsubscribe) == 1
    assert consumer.state is ConsumerState.CLOSED


async def test_a_topic_that_was_deleted_does_not_prevent_a_seek_of_the_others(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await losing_one_of_two(desk, caplog)
    await consumer.seek(0)
    assert desk.peer.count(events.Seek) == 1
    (last,) = await consumer.get_last_message_ids()
    assert last.topic_name() == TOPIC


async def test_a_consumer_that_has_failed_says_so(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    consumer = await losing_one_of_two(desk, caplog)
    gone = next(each for each in consumer.consumers() if each.topic() != TOPIC)
    with pytest.raises(NotConnected, match="has failed: create a new one"):
        await gone.seek(0)


async def test_a_reader_that_began_at_the_end_reads_a_new_partition_from_its_first_message(
    desk: Desk,
) -> None:
    partitions = Partitions(desk, 1)
    reader = await desk.client.create_reader(TOPIC, MessageId.latest)
    consumer = reader._consumer
    assert isinstance(consumer, MultiTopicsConsumer)
    partitions.count = 2
    await consumer.add(TOPIC, is_new=True)
    starts = [
        (each.start.ledger_id, each.start.entry_id) for each in desk.peer.of(events.Subscribe) if each.start
    ]
    assert starts == [(each.ledger_id(), each.entry_id()) for each in (MessageId.latest, MessageId.earliest)]


async def test_messages_that_came_during_a_seek_go_with_a_topic_that_fails_meanwhile(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    gone = f"{TOPIC}-gone"
    consumer = await desk.client.subscribe([TOPIC, gone], "billing")

    def no_topic(link: Link, event: events.Lookup) -> None:
        link.engine.send_lookup_failed(event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic")

    desk.peer.on(events.Lookup, no_topic)
    desk.peer.on(events.Seek, silent)
    (subscribed,) = (each for each in desk.peer.of(events.Subscribe) if each.topic == gone)
    seeking = asyncio.create_task(consumer.seek(1))
    await until(lambda: desk.peer.count(events.Seek) == 2, "both SEEKs")
    link = desk.peer.link
    link.deliver(subscribed.consumer_id, single(b"early"), entry_id=0, ledger_id=LEDGER_ID)
    link.engine.send_close_consumer(subscribed.consumer_id)
    link.flush()
    await until(lambda: "has failed" in caplog.text, "its end")
    for asked in desk.peer.of(events.Seek):
        link.engine.send_error(asked.request_id, ServerError.PERSISTENCE_ERROR, "not now")
    link.flush()
    with pytest.raises(BrokerPersistenceError):
        await seeking
    assert len(consumer.queue) == 0


async def test_an_id_may_name_its_topic_by_its_short_name(desk: Desk) -> None:
    consumer = await Partitions(desk, 2).consumer(ack_group_time_ms=0)
    consumer.acknowledge(MessageId(1, LEDGER_ID, 5, topic="orders"))
    await until(lambda: desk.acks() == [(LEDGER_ID, 5)], "the ack")
    (acked,) = desk.peer.of(events.Ack)
    subscribed = next(each for each in desk.peer.of(events.Subscribe) if each.topic == f"{TOPIC}-partition-1")
    assert acked.consumer_id == subscribed.consumer_id
