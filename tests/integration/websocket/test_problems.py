"""Problems of a subscription are counted by kind, in memory, in /metrics and for the console."""

from __future__ import annotations

import pytest

from broker.core.entry import FLAG_BATCH
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.process.reports.problems import problems
from tests.support.broker_harness import BrokerRun, eventually, rows
from tests.support.json_peer import JsonPeer, only_consumer, publish, publish_entries, text_of
from vela.wire.checksum import with_checksum
from vela.wire.compression import Compression
from vela.wire.message_id import MessageId
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata


def cannot_be_unpacked(messages: int) -> bytes:
    """A batch whose checksum and metadata are sound, and whose codec refuses it."""
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        uncompressed_size=1000,
        num_messages_in_batch=messages,
    )
    metadata.compression = Compression.LZ4
    head = metadata.SerializeToString()
    return with_checksum(len(head).to_bytes(4, "big") + head + b"garbage")


@pytest.mark.row("S0.18", "S0.19")
async def test_discards_cost_nothing_and_are_counted_and_shown(run: BrokerRun) -> None:
    await publish_entries(run, *[cannot_be_unpacked(10)] * 100, messages=10, flags=FLAG_BATCH)
    await publish(run, "good")
    peer = await JsonPeer.open(run, "subscriptionType=Shared&receiverQueueSize=100")
    (push,) = await peer.has(1)
    assert text_of(push) == "good"
    subscription = run.subscription()
    await eventually(lambda: subscription.cursor.backlog_messages == 1, "the broken ones are acked")
    permits = only_consumer(subscription).dispatch.permits
    await eventually(lambda: permits.balance == 99, "every permit is back")
    assert permits.granted - permits.spent == 99
    assert subscription.counters.validation_errors == {"DECOMPRESSION_ERROR": 100}
    (line,) = [each for each in run.metrics_text().splitlines() if "discarded_total{" in each]
    assert 'reason="DECOMPRESSION_ERROR"} 100' in line

    consumer = only_consumer(subscription)
    await peer.ack({"messageId": MessageId(subscription.read_position.ledger_id, 999).to_base64()})
    await peer.ack(push, type="acknowledge", ackType="cumulative")
    assert subscription.counters.invalid_acks == 1
    assert consumer.has_pending(Position(subscription.read_position.ledger_id, 100))

    wanted = {
        "messages that consumers discarded: DECOMPRESSION_ERROR": 100,
        "acks of ids that are not stored": 1,
        "cumulative acks, which Shared does not have": 1,
    }
    query = "SELECT problems FROM vela_subscription_summary"
    await eventually(lambda: rows(run.database_url, query) == [(wanted,)], "the console's numbers")


async def test_a_cumulative_ack_of_several_ids_is_named_as_such(run: BrokerRun) -> None:
    positions = await (await run.producer()).publish(2)
    consumer = await run.consumer(type_=SubscriptionType.EXCLUSIVE, permits=10)
    await consumer.has(2)
    consumer.ack(*positions, cumulative=True)
    assert problems(run.subscription()) == {"cumulative acks of more than one id": 1}
