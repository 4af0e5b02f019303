"""Disk use stays near the size of the backlog (long form: `bench/questions/steady_disk.py`)."""

from __future__ import annotations

import os

import pytest

from tests.support.broker_harness import BrokerRun, ConsumerProbe, ProducerProbe, one_row
from tests.support.lifetime import keeping, recounted, settled

TOPICS = 10
PAYLOAD_BYTES = 4096
SEGMENT_BYTES = 256 * 1024
ROUND = 8  # entries for each topic
ROUNDS = 50
TIMES = 20


def size_bytes(url: str) -> int:
    """Return the size of all tables of entries."""
    (size,) = one_row(
        url,
        "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
        " WHERE relkind = 'r' AND relname ~ '^vela_entry_[0-9]+'",
    )
    return int(size)


async def turn(run: BrokerRun) -> None:
    """Run what housekeeping and the lifetime tasks do as time passes."""
    await run.flushed()
    await run.broker.segments.turn()
    await run.broker.lifetime.look_at_topics()
    await run.broker.lifetime.look_at_segments()


@pytest.mark.parametrize("straggles", [False, True])
async def test_consumed_messages_leave_the_disk_as_it_was(broker_url: str, straggles: bool) -> None:
    sizes: list[int] = []
    written = kept = 0
    async with keeping(
        broker_url, ledger_max_entries=100, segment_max_bytes=SEGMENT_BYTES, tail_cache_bytes=1 << 20
    ) as run:
        producers: list[ProducerProbe] = []
        consumers: list[ConsumerProbe] = []
        for number in range(TOPICS):
            producers.append(await run.producer(f"t{number}"))
            consumers.append(await run.consumer(f"t{number}", permits=10_000, acks=True))
        slow = await run.producer("slow")
        await run.consumer("slow", "never")
        for each in range(ROUNDS):
            for producer in producers:
                for _ in range(ROUND):
                    producer.send(os.urandom(PAYLOAD_BYTES))
            if straggles and each % 4 == 0:
                await slow.publish(1)
                kept += 1
            for number, producer in enumerate(producers):
                await producer.has_receipts((each + 1) * ROUND)
                await settled(run, topic=f"t{number}")
            written += TOPICS * ROUND * PAYLOAD_BYTES
            await turn(run)
            sizes.append(size_bytes(broker_url))
        await turn(run)
        await turn(run)
        final = size_bytes(broker_url)
        assert written >= TIMES * final, (written, final)
        assert max(sizes[ROUNDS // 2 :]) <= 1.5 * max(sizes[: ROUNDS // 2]), sizes
        assert final <= 3 * SEGMENT_BYTES
        late = await run.consumer("slow", "never", permits=1000, name="late")
        await late.has(kept)
        assert len(set(late.positions)) == kept
        await recounted(run, "slow")
