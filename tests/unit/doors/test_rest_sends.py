"""The sends of a request to publish over REST."""

from __future__ import annotations

import pytest

from broker.core.errors import MessageTooLarge
from broker.core.topic_name import TopicName
from broker.doors.admin.messages.rest_sends import RestSends
from broker.producers.requests import ProducerRequest
from tests.support.broker_harness import IDENTITY
from tests.unit.doors.fake_broker import FakeBroker
from vela.wire.entry import OutgoingMessage


async def test_an_entry_that_no_frame_has_room_for_is_refused_and_its_producer_says_why() -> None:
    broker = FakeBroker(max_message_bytes=2000)
    topic = TopicName.parse("orders")
    sends = RestSends(broker, ProducerRequest(topic=topic, name="p"))
    await sends.open(IDENTITY)
    message = OutgoingMessage(payload=b"x", properties={"x": "y" * 12_150})
    with pytest.raises(MessageTooLarge, match="the limit is 12112"):
        await sends.publish(message, sequence_id=None, publish_time_ms=1, deliver_at_ms=0, schema_version=b"")
    producer = broker.topic(topic.full).producers["p"]
    assert [type(each) for each in producer.refusals] == [MessageTooLarge]
    assert not sends._waiting
