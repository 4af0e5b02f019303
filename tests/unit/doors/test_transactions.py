"""Every command that names a transaction is refused with an error that says why. No transaction ever opens."""

from __future__ import annotations

import struct

import pytest

from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import TOPIC, WireClient
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.binary.frames import simple_frame
from vela.wire.entry import encode_single
from vela.wire.pb import vela_pulsar_pb2 as pb


@pytest.mark.row("S1.6")
async def test_transactions_are_refused_by_name() -> None:
    broker = FakeBroker()
    client = WireClient(broker)
    await client.open_producer()
    await client.subscribe(type_=SubType.SHARED)
    client.tell(commands.flow(1, 10))
    data = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"x")
    client.tell(b"".join(commands.send(1, 0, data)))
    await client.settle()
    client.heard()

    client.tell(send_in_transaction(data))
    await client.settle()
    (refused,) = client.heard()
    assert ServerError(refused.send_error.error) == ServerError.NOT_ALLOWED_ERROR
    assert "transactions are not available" in refused.send_error.message
    assert len(broker.topic("orders").entries) == 1

    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=9)
    ack.message_id.add(ledgerId=broker.topic("orders").ledger_id, entryId=0)
    ack.txnid_least_bits = ack.txnid_most_bits = 1
    client.tell(simple_frame(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack).SerializeToString()))
    await client.settle()
    (refused,) = client.heard()
    assert ServerError(refused.ackResponse.error) == ServerError.NOT_ALLOWED_ERROR
    assert broker.topic("orders").subscriptions["s"].acked == set()

    producer = pb.CommandProducer(topic=TOPIC, producer_id=2, request_id=10, txn_enabled=True)
    client.tell(
        simple_frame(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=producer).SerializeToString())
    )
    await client.settle()
    (refused,) = client.heard()
    assert ServerError(refused.error.error) == ServerError.NOT_ALLOWED_ERROR


def send_in_transaction(data: bytes) -> bytes:
    """Return a SEND that names a transaction."""
    send = pb.CommandSend(producer_id=1, sequence_id=1, txnid_least_bits=1, txnid_most_bits=1)
    command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString()
    return struct.pack(">II", 4 + len(command) + len(data), len(command)) + command + data
