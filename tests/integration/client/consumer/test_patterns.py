"""A consumer of a pattern, against a scripted broker whose topics come and go."""

from __future__ import annotations

import asyncio
import re

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.scripted_peer import Link
from tests.support.waiting import until
from vela.aio.consumers.pattern import PatternConsumer
from vela.errors import NotConnected
from vela.options import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy, ConsumerType
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError

LATER = "persistent://public/default/orders-later"


class Topics:
    """The topics of the namespace, which the peer lists and serves."""

    def __init__(self, desk: Desk) -> None:
        self.names = [TOPIC]
        desk.peer.on(events.GetTopicsOfNamespace, self._list)
        desk.peer.on(events.Lookup, self._look_up)
        self._desk = desk

    def _list(self, link: Link, event: events.GetTopicsOfNamespace) -> None:
        link.engine.send_topics_of_namespace(
            event.request_id, self.names, is_filtered=False, known_hash=event.topics_hash
        )

    def _look_up(self, link: Link, event: events.Lookup) -> None:
        if event.topic in self.names:
            self._desk.peer.answer(link, event)
        else:
            link.engine.send_lookup_failed(event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic")


async def test_a_pattern_goes_on_after_its_only_topic_was_deleted(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    topics = Topics(desk)
    consumer = await desk.client.subscribe(re.compile("public/default/orders.*"), "billing")
    assert isinstance(consumer, PatternConsumer)
    for failures, name in enumerate((LATER, TOPIC, TOPIC), start=1):
        topics.names = []
        desk.deliver_each(b"not acknowledgeable any more")
        await until(lambda: consumer.statistics().messages_waiting, "the message")
        desk.link.raw(commands.close_consumer(desk.consumer_id, request_id=-1))
        await until(lambda: caplog.text.count("has failed") == failures, "its end")  # noqa: B023 - awaited at once
        await until(lambda: not consumer.statistics().messages_waiting, "it to be dropped")
        assert not await consumer.has_message_available()
        assert await consumer.get_last_message_ids() == []
        with pytest.raises(NotConnected):
            await consumer.get_last_message_id()
        topics.names = [name]
        await consumer.look()
        assert consumer.topics() == [name]
        desk.deliver_each(b"new")
        assert (await consumer.receive(5_000)).data() == b"new"
    asked = [event for event in desk.link.heard if isinstance(event, events.Subscribe)]
    assert not any(event.create_topic for event in asked), "a deleted topic would be created again"


async def test_a_batch_receive_that_begins_without_a_topic_ends_with_the_first_topics_messages(
    desk: Desk,
) -> None:
    topics = Topics(desk)
    topics.names = []
    policy = ConsumerBatchReceivePolicy(max_num_message=2, max_num_bytes=-1, timeout_ms=-1)
    consumer = await desk.client.subscribe(
        re.compile("public/default/orders.*"), "billing", batch_receive_policy=policy
    )
    assert isinstance(consumer, PatternConsumer)
    collecting = asyncio.create_task(consumer.batch_receive())
    await asyncio.sleep(0)
    topics.names = [TOPIC]
    await consumer.look()
    desk.deliver_each(b"0", b"1")
    assert [message.data() for message in await asyncio.wait_for(collecting, 5)] == [b"0", b"1"]


@pytest.mark.parametrize(
    ("given", "takers"),
    [
        (None, [f"{TOPIC}-billing-DLQ", f"{LATER}-billing-DLQ", "persistent://public/default/billing-DLQ"]),
        ("orders-dead", ["persistent://public/default/orders-dead"]),
    ],
)
async def test_topics_of_the_consumers_own_dead_letters_are_not_consumed(
    desk: Desk, given: str | None, takers: list[str]
) -> None:
    topics = Topics(desk)
    topics.names = [TOPIC, *takers]
    consumer = await desk.client.subscribe(
        re.compile("public/default/.*"),
        "billing",
        consumer_type=ConsumerType.Shared,
        dead_letter_policy=ConsumerDeadLetterPolicy(2, given),
    )
    assert isinstance(consumer, PatternConsumer)
    assert TOPIC in consumer.topics()
    topics.names.append(LATER)
    await consumer.look()
    assert set(consumer.topics()) == {TOPIC, LATER}
