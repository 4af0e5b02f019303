"""Damaged entries are discarded once, with their reason and their permits."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk, owed
from tests.integration.client.consumer.test_receiving import payloads
from tests.support.scripted_peer import LEDGER_ID, silent
from tests.support.waiting import until
from tests.unit.client.entries import batch, compose, damage, metadata, sealed, single
from vela.core.consuming.entry_opening import Undecryptable
from vela.options import ConsumerCryptoFailureAction
from vela.wire.binary.enums import ValidationError
from vela.wire.compression import Compression

DAMAGED = [
    pytest.param(
        compose(b"\xff\xff", b"x"), "CHECKSUM_MISMATCH", 1, id="metadata", marks=pytest.mark.row("S0.11")
    ),
    pytest.param(
        damage(batch([b"x"] * 10)), "CHECKSUM_MISMATCH", 10, id="checksum", marks=pytest.mark.row("S0.12")
    ),
    pytest.param(
        compose(metadata(uncompressed_size=257 << 20, compression=1), b"x"),
        "UNCOMPRESSED_SIZE_CORRUPTION",
        1,
        id="size",
        marks=pytest.mark.row("S0.13"),
    ),
    pytest.param(
        compose(metadata(uncompressed_size=60, compression=1, num_messages_in_batch=4), b"\xff" * 9),
        "DECOMPRESSION_ERROR",
        4,
        id="codec",
        marks=pytest.mark.row("S0.14"),
    ),
]


@pytest.mark.row("S0.18")
@pytest.mark.parametrize(("entry", "reason", "charged"), DAMAGED)
async def test_a_damaged_entry_is_one_ack_with_the_reason_and_its_permits(
    desk: Desk, entry: bytes, reason: str, charged: int, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await desk.subscribe(receiver_queue_size=20)
    with caplog.at_level(logging.WARNING):
        at = desk.deliver(entry, messages=charged)
        desk.deliver_each(b"good")
        assert await payloads(consumer, 1) == [b"good"]
    await desk.fence(consumer)
    assert desk.discards() == [(at, reason)]
    assert consumer.counters.discards == {ValidationError[reason]: 1}
    assert consumer.counters.receives_failed == 1
    assert len([line for line in caplog.messages if reason in line]) == 1
    await until(lambda: desk.permits + owed(consumer) == 20, "all permits")


@pytest.mark.row("S0.17")
async def test_an_entry_is_discarded_once_however_much_is_wrong(desk: Desk) -> None:
    consumer = await desk.subscribe()
    worst = compose(
        metadata(compression=1, uncompressed_size=6 << 20, num_messages_in_batch=9), b"?", checksum=1
    )
    at = desk.deliver(worst)
    desk.deliver_each(b"good")
    await payloads(consumer, 1)
    await desk.fence(consumer)
    assert desk.discards() == [(at, "CHECKSUM_MISMATCH")]
    assert desk.acks() == [(LEDGER_ID, at)]


@pytest.mark.row("S0.15")
async def test_the_messages_before_the_damage_stay_receivable(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=20)
    five = [b"%d" % index * 9 for index in range(5)]
    at = desk.deliver(batch(five, cut=40), messages=5)
    desk.deliver_each(b"good")
    async with asyncio.timeout(5):
        messages = [await consumer.receive() for _ in range(3)]
    assert [message.data() for message in messages[:2]] == five[:2]
    assert messages[2].data() in (five[2], b"good")
    await desk.fence(consumer)
    assert desk.discards() == [(at, "BATCH_DESERIALIZE_ERROR")]
    for message in messages:
        consumer.acknowledge(message)
    assert consumer.acks.unacked_messages(LEDGER_ID, at, 2) == 0  # the client remembers nothing of this batch
    await until(lambda: desk.permits + owed(consumer) == 20, "all permits")


@pytest.mark.row("S0.19")
async def test_a_hundred_damaged_batches_leave_the_permits_right(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=100)
    for _ in range(100):
        desk.deliver(damage(batch([b"x"] * 10)), messages=10)
    desk.deliver_each(b"good")
    assert await payloads(consumer, 1) == [b"good"]
    await until(lambda: desk.permits + owed(consumer) == 100, "all permits")


@pytest.mark.row("S0.19")
async def test_a_broker_that_makes_up_for_discarded_batches_is_given_one_permit(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=100)
    link = consumer.link.connection
    assert link is not None
    link._engine.server_version = "Vela 0.1.0"
    desk.deliver(damage(batch([b"x"] * 10)), messages=1)  # the broker charges 10 permits and returns 9
    desk.deliver(batch([b"x"] * 5, cut=40), messages=1)
    desk.deliver_each(b"good")
    while (await consumer.receive()).data() != b"good":
        pass
    await until(lambda: desk.permits + owed(consumer) == 100, "all permits")


@pytest.mark.row("S0.16")
async def test_the_action_fail_keeps_an_encrypted_entry_unacknowledged(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10)
    desk.deliver(sealed(b"?", num_messages_in_batch=4), messages=4)
    desk.deliver_each(b"good")
    assert await payloads(consumer, 1) == [b"good"]
    await desk.fence(consumer)
    assert desk.acks() == []
    assert consumer.counters.undecryptable_entries == 1
    await until(lambda: desk.permits + owed(consumer) == 10, "all permits")


@pytest.mark.row("S0.16")
async def test_the_ack_timeout_redelivers_an_entry_that_cannot_be_decrypted(desk: Desk) -> None:
    await desk.subscribe(unacked_messages_timeout_ms=1000, unacked_messages_tick_ms=100)
    desk.deliver(sealed(b"?"))
    await until(lambda: desk.peer.count(events.Redeliver) == 1, "the redelivery request")


@pytest.mark.row("S0.16")
async def test_the_action_discard_acks_an_encrypted_entry_unread(desk: Desk) -> None:
    consumer = await desk.subscribe(
        receiver_queue_size=10, crypto_failure_action=ConsumerCryptoFailureAction.DISCARD
    )
    at = desk.deliver(sealed(b"?", num_messages_in_batch=4), messages=4)
    desk.deliver_each(b"good")
    assert await payloads(consumer, 1) == [b"good"]
    await desk.fence(consumer)
    assert desk.discards() == [(at, "DECRYPTION_ERROR")]
    await until(lambda: desk.permits + owed(consumer) == 10, "all permits")


@pytest.mark.row("S0.16")
async def test_the_action_consume_delivers_an_encrypted_entry_as_it_is(desk: Desk) -> None:
    consumer = await desk.subscribe(
        receiver_queue_size=10, crypto_failure_action=ConsumerCryptoFailureAction.CONSUME
    )
    at = desk.deliver(
        sealed(
            b"ciphertext", num_messages_in_batch=4, compression=Compression.ZSTD.value, uncompressed_size=99
        ),
        messages=4,
    )
    message = await asyncio.wait_for(consumer.receive(), 5)
    context = message.encryption_context()
    assert context is not None
    assert (message.data(), context.is_decryption_failed(), context.batch_size()) == (b"ciphertext", True, 4)
    assert (context.keys()[0].key, context.param()) == ("theirs", b"vector")
    assert message.message_id().batch_index() == -1
    consumer.acknowledge(message)
    await until(lambda: desk.acks() == [(LEDGER_ID, at)], "its ack")
    await until(lambda: desk.permits + owed(consumer) == 10, "all permits")


@pytest.mark.row("S0.16")
async def test_a_decrypted_message_names_its_keys(desk: Desk) -> None:
    consumer = await desk.subscribe()

    def decrypt(head: object, payload: bytes) -> bytes:
        if payload == b"bad":
            raise RuntimeError("a key reader that fails")
        return payload[::-1]

    consumer._deliveries._intake._decrypt = decrypt
    desk.deliver(sealed(b"bad"))
    desk.deliver(sealed(b"doog"))
    message = await asyncio.wait_for(consumer.receive(), 5)
    context = message.encryption_context()
    assert message.data() == b"good"
    assert context is not None
    assert not context.is_decryption_failed()
    assert issubclass(Undecryptable, Exception)


@pytest.mark.row("S4.14")
async def test_a_redelivery_of_an_acked_message_is_dropped_with_its_permit(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10, ack_group_time_ms=60_000)
    at = desk.deliver(single(b"first"))
    consumer.acknowledge(await consumer.receive())
    desk.deliver(single(b"first"), entry_id=at)
    desk.deliver_each(b"second")
    assert await payloads(consumer, 1) == [b"second"]
    await until(lambda: desk.permits + owed(consumer) == 10, "all permits")


@pytest.mark.parametrize("is_old", [True, False])
async def test_a_chunk_without_its_first_chunk_is_acked_when_it_is_old(desk: Desk, is_old: bool) -> None:
    """The chunk's age is measured by the wall clock, which its producer also used."""
    consumer = await desk.subscribe(ack_group_time_ms=0)
    published_ms = int(time.time() * 1000) - (60_000 if is_old else 0)
    head = metadata(
        uuid="u", chunk_id=1, num_chunks_from_msg=3, total_chunk_msg_size=3, publish_time=published_ms
    )
    at = desk.deliver(compose(head, b"x"))
    desk.deliver_each(b"after")
    assert await payloads(consumer, 1) == [b"after"]
    await desk.fence(consumer)
    assert desk.acks() == ([(LEDGER_ID, at)] if is_old else [])


@pytest.mark.row("S0.28")
async def test_each_message_of_an_entry_counts_against_the_permits(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.deliver(batch([b"x"] * 7), messages=7)
    await until(lambda: consumer.counters.messages_delivered == 7, "seven messages")
    assert consumer.topic() == TOPIC


@pytest.mark.row("S0.26")
async def test_an_entry_is_acked_with_the_last_of_its_messages(desk: Desk) -> None:
    consumer = await desk.subscribe(ack_group_time_ms=0)
    at = desk.deliver(batch([b"x"] * 10), messages=10)
    messages = [await consumer.receive() for _ in range(10)]
    assert [message.message_id().batch_index() for message in messages] == list(range(10))
    for message in messages[:9]:
        consumer.acknowledge(message)
    desk.deliver_each(b"after")
    await payloads(consumer, 1)
    await desk.fence(consumer)
    assert desk.acks() == []
    consumer.acknowledge(messages[9])
    await until(lambda: desk.acks() == [(LEDGER_ID, at)], "the entry's ack")


async def test_a_chunk_that_comes_while_its_consumer_closes_breaks_no_connection(desk: Desk) -> None:
    consumer = await desk.subscribe(ack_receipt_enabled=True)
    desk.deliver(compose(metadata(uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=2), b"x"))
    desk.deliver_each(b"one")
    consumer.acknowledge(await consumer.receive(5_000))
    desk.peer.on(events.Ack, silent)
    closing = asyncio.create_task(consumer.close())
    await until(lambda: desk.peer.count(events.Ack) == 1, "the ack, whose receipt close() awaits")
    desk.deliver(compose(metadata(uuid="u", chunk_id=1, num_chunks_from_msg=2, total_chunk_msg_size=2), b"y"))
    request_id = desk.peer.of(events.Ack)[0].request_id
    assert request_id is not None
    desk.link.engine.send_ack_response(desk.consumer_id, request_id)
    desk.link.flush()
    await closing
    assert desk.peer.count(events.CloseConsumer) == 1
    assert len(desk.peer.open_links) == 1
