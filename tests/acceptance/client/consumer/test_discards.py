"""A client of a whole Vela discards each unreadable entry once, with the reason, and still gets the other messages.

If the broker accepts a damaged entry, the test publishes it damaged. If the broker would refuse it, the test publishes
it sound, and the relay damages it on its way to the client.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from broker.doors.binary.wire import events
from tests.acceptance.client.consumer.consuming import all_acknowledged, becomes, data, publish, take
from tests.acceptance.client.publishing import publish_entries
from tests.acceptance.client.sent_frames import fence
from tests.support.frame_relay import Frame, FrameRelay
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from tests.unit.client.entries import batch, compose, damage, metadata, single
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.wire.binary.enums import ValidationError
from vela.wire.binary.fields import parse_command
from vela.wire.compression import Compression
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

MIB = 1 << 20
TEN = batch([b"one of ten"] * 10)
CODECS = (Compression.LZ4, Compression.ZLIB, Compression.ZSTD, Compression.SNAPPY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A topic with one consumer behind the relay."""

    vela: VelaProcess
    relay: FrameRelay
    client: Client
    topic: str
    log: pytest.LogCaptureFixture

    def damage(self, stored: bytes, delivered: bytes) -> None:
        """From now on, deliver other bytes in place of this entry."""

        def changed(frame: Frame) -> Sequence[Frame]:
            is_it = frame.payload == stored and parse_command(frame.command).type == BaseCommand.MESSAGE
            return (Frame(frame.command, delivered),) if is_it else (frame,)

        self.relay.to_client = changed

    async def throws_away(
        self,
        *entries: tuple[bytes, int],
        as_: ValidationError,
        because: str,
        shows: Sequence[bytes] = (),
    ) -> None:
        """Check that the client discards each entry with the error `as_`.

        An entry is a pair: its bytes, and its number of messages. `shows` are the messages that the client delivers
        before the error. The queue has room for one message: if the client did not grant a permit again, all deliveries
        would stop.
        """
        consumer = await self.client.subscribe(self.topic, "s", receiver_queue_size=1, ack_group_time_ms=0)
        assert isinstance(consumer, TopicConsumer)
        await publish_entries(
            self.client, self.topic, (single(b"before"), 1), *entries, (single(b"after"), 1)
        )
        assert data(await take(consumer, 2 + len(shows))) == [b"before", *shows, b"after"]
        await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
        await fence(consumer)
        count = len(entries)
        assert self.discards() == [as_] * count
        assert consumer.counters.discards == {as_: count}
        assert sum(flow.permits for flow in self.relay.of(events.Flow)) == 1 + 2 + count
        assert because in self.log.text
        await self.broker_knows(as_.name, count, consumer)
        consumer.redeliver_unacknowledged_messages()
        await publish(self.client, self.topic, [b"last"])
        assert data(await take(consumer, 1)) == [b"last"]

    def discards(self) -> list[ValidationError]:
        """The reasons that the client gave, one for each discarded entry."""
        found = [ack for ack in self.relay.of(events.Ack) if ack.validation_error is not None]
        positions = [(each.ledger_id, each.entry_id, each.ack_set) for ack in found for each in ack.ids]
        assert len(set(positions)) == len(positions) == len(found)
        return [ack.validation_error for ack in found if ack.validation_error is not None]

    async def broker_knows(self, reason: str, count: int, consumer: TopicConsumer) -> None:
        """Check that the broker counted and logged the reason, and that no message is unacked."""
        found = await asyncio.to_thread(self.numbers)
        discarded = {name: value for name, value in found.items() if "discarded_total" in name}
        assert list(discarded.values()) == [count]
        assert f'reason="{reason}"' in next(iter(discarded))
        waiting = ("vela_subscription_backlog_messages", "pulsar_subscription_unacked_messages")
        assert [value for name, value in found.items() if name.startswith(waiting)] == [0, 0]
        names = f"{self.topic}, subscription {consumer.subscription_name()}: {consumer.consumer_name()}"
        line = f"{names} discarded a message: {reason} (1 so far)"
        log = self.vela.data_dir / "log" / "broker.log"
        await until(lambda: line in log.read_text(encoding="utf-8"), f"the broker to log {line!r}")

    def numbers(self) -> dict[str, float]:
        """The topic's series in the broker's metrics."""
        with urllib.request.urlopen(f"{self.vela.http_url}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
        series = (line.rsplit(" ", 1) for line in lines if f'"{self.topic}"' in line)
        return {name: float(value) for name, value in series}


@pytest.fixture
def scene(
    shared_vela: VelaProcess,
    relay: FrameRelay,
    relayed: Client,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> Scene:
    return Scene(vela=shared_vela, relay=relay, client=relayed, topic=topic, log=caplog)


@pytest.mark.row("S0.11")
async def test_unreadable_metadata_is_discarded(scene: Scene) -> None:
    scene.damage(TEN, compose(b"\xff\xff\xff", b"payload"))
    await scene.throws_away((TEN, 10), as_=ValidationError.CHECKSUM_MISMATCH, because="MessageMetadata")


@pytest.mark.row("S0.12")
async def test_a_payload_with_one_changed_bit_is_discarded(scene: Scene) -> None:
    scene.damage(TEN, damage(TEN))
    await scene.throws_away((TEN, 10), as_=ValidationError.CHECKSUM_MISMATCH, because="checksum")


@pytest.mark.row("S0.12")
async def test_the_checksum_is_checked_before_the_metadata(scene: Scene) -> None:
    scene.damage(TEN, compose(b"\xff\xff\xff", b"payload", checksum=1))
    await scene.throws_away((TEN, 10), as_=ValidationError.CHECKSUM_MISMATCH, because="checksum")


@pytest.mark.row("S0.13")
async def test_a_declared_size_above_the_limit_is_discarded(scene: Scene) -> None:
    small = single(b"small")
    bomb = compose(metadata(compression=Compression.LZ4.value, uncompressed_size=257 * MIB), b"no lz4 at all")
    scene.damage(small, bomb)
    await scene.throws_away(
        (small, 1), as_=ValidationError.UNCOMPRESSED_SIZE_CORRUPTION, because=f"{257 * MIB} bytes"
    )


@pytest.mark.row("S0.13")
async def test_a_payload_above_the_largest_message_is_discarded(scene: Scene) -> None:
    small = single(b"small")
    scene.damage(small, compose(metadata(), bytes(5 * MIB + 1)))
    await scene.throws_away(
        (small, 1), as_=ValidationError.UNCOMPRESSED_SIZE_CORRUPTION, because=f"{5 * MIB + 1} bytes"
    )


@pytest.mark.row("S0.14")
async def test_payloads_that_their_codecs_refuse_are_discarded(scene: Scene) -> None:
    garbage = [
        compose(
            metadata(compression=codec.value, uncompressed_size=500, num_messages_in_batch=10), b"\xff" * 99
        )
        for codec in CODECS
    ]
    await scene.throws_away(
        *((entry, 10) for entry in garbage), as_=ValidationError.DECOMPRESSION_ERROR, because="snappy"
    )


@pytest.mark.row("S0.15")
async def test_a_batch_that_breaks_off_at_its_third_message_delivers_the_first_two(scene: Scene) -> None:
    five = [b"%d" % number * 20 for number in range(5)]
    cut_off = batch(five, cut=2 * (4 + 4 + 20) + 5)
    await scene.throws_away(
        (cut_off, 5), as_=ValidationError.BATCH_DESERIALIZE_ERROR, because="message 2", shows=five[:2]
    )


@pytest.mark.row("S0.17")
async def test_only_the_first_of_several_faults_counts(scene: Scene) -> None:
    everything = metadata(
        compression=Compression.LZ4.value, uncompressed_size=6 * MIB, num_messages_in_batch=10
    )
    scene.damage(TEN, compose(everything, b"?", checksum=1))
    await scene.throws_away((TEN, 10), as_=ValidationError.CHECKSUM_MISMATCH, because="checksum")
    assert "_ERROR" not in scene.log.text
    assert "UNCOMPRESSED" not in scene.log.text
