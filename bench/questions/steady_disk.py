"""Does disk use stay near the size of the backlog, whatever passes through, even if one subscription acks nothing?"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field

import psycopg

from bench.figures import Figure, Goal
from bench.load.consuming.drain import drain
from bench.load.messages import entries
from bench.load.peers.binary import BinaryPeer
from bench.load.steady import SteadyCycle
from bench.setting import Setting
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["SETTINGS", "ask"]

SEGMENT_BYTES = 32 * 1024 * 1024
SETTINGS = {  # delete on ack, and tables small enough for many of them to come and go in a minute
    "VELA_DEFAULT_RETENTION_MS": "0",
    "VELA_DEFAULT_RETENTION_BYTES": "0",
    "VELA_LEDGER_MAX_ENTRIES": "1000",
    "VELA_LEDGER_MIN_AGE_S": "0",
    "VELA_LIFETIME_CHECK_S": "1",
    "VELA_SEGMENT_MAX_BYTES": str(SEGMENT_BYTES),
}
PAYLOAD_BYTES = 8 * 1024
TOPICS = 50
TIMES = 20  # the least ratio of bytes written to bytes on disk at the end
_LOOK_EVERY_S = 0.5
_LONGEST_S = 600.0
_SETTLE_S = 60.0
_STILL_S = 5.0
_FLUSHED_S = 2.0  # the last acks arrive, and the broker stores cursors within a second
# The open table, which may grow beyond its limit until the next check a second later.
_AT_REST_BYTES = 3 * SEGMENT_BYTES

_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relkind = 'r' AND relname LIKE 'vela\\_entry\\_%'"
)


@dataclass(slots=True)
class _Run:
    written_bytes: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=list)  # (written so far, bytes in tables of entries)
    final_bytes: int = 0
    kept_messages: int = 0  # of the straggler

    @property
    def growth(self) -> float:
        """The largest size during the second half of the writing, divided by the largest size during the first half."""
        half = self.written_bytes / 2
        first = max((size for written, size in self.sizes if written <= half), default=self.sizes[0][1])
        return max(size for written, size in self.sizes if written > half) / first


def ask(setting: Setting) -> list[Figure]:
    """Consume fifty topics as they are written, then again while one of them has no consumer."""
    figures: list[Figure] = []
    for has_straggler in (False, True):
        run = asyncio.run(_write_and_consume(setting, has_straggler=has_straggler))
        name = "one of 50 topics never acked" if has_straggler else "all acked"
        figures += [
            Figure(
                name=f"written over what is on disk at the end, {name}",
                unit="x",
                runs=(run.written_bytes / run.final_bytes,),
                goal=Goal(at_least=TIMES),
                note=f"{run.written_bytes / 1e6:,.0f} MB written, {run.final_bytes / 1e6:,.1f} MB at the end",
            ),
            Figure(
                name="  largest size, second half over first",
                unit="x",
                runs=(run.growth,),
                note=f"largest {max(size for _, size in run.sizes) / 1e6:,.1f} MB",
            ),
        ]
        if has_straggler:
            figures.append(Figure(name="  messages kept for it", unit="", runs=(float(run.kept_messages),)))
    return figures


async def _write_and_consume(setting: Setting, *, has_straggler: bool) -> _Run:
    run = _Run()
    straggler = await _Straggler.start(setting) if has_straggler else None
    cycles = [
        await SteadyCycle.start(setting.pulsar_port, setting.fresh_topic("steady"), PAYLOAD_BYTES)
        for _ in range(TOPICS - has_straggler)
    ]
    began = time.monotonic()
    async with await psycopg.AsyncConnection.connect(
        setting.vela.database_url, autocommit=True
    ) as connection:
        try:
            while not run.final_bytes:
                await asyncio.sleep(_LOOK_EVERY_S)
                delivered = sum(cycle.delivered for cycle in cycles)
                if straggler is not None:
                    await straggler.send_through(delivered // (TOPICS - 1))
                    run.kept_messages = straggler.sent
                run.written_bytes = (delivered + run.kept_messages) * PAYLOAD_BYTES
                size = await _size(connection)
                run.sizes.append((run.written_bytes, size))
                for cycle in cycles:
                    await cycle.per_s(0)
                kept_bytes = run.kept_messages * PAYLOAD_BYTES
                enough = SEGMENT_BYTES * 8 if setting.is_quick else TIMES * (_AT_REST_BYTES + kept_bytes)
                if run.written_bytes > enough:
                    run.final_bytes = size
                if time.monotonic() - began > _LONGEST_S:
                    raise AssertionError(f"{run.written_bytes:,} bytes written, {size:,} on disk: not steady")
            for cycle in cycles:
                await cycle.finish()
            await asyncio.sleep(_FLUSHED_S)
        finally:
            for cycle in cycles:
                cycle.stop()
        run.final_bytes = await _settled(connection, run.final_bytes)
    if straggler is not None:
        straggler.stop()
        await drain(
            setting.pulsar_port,
            straggler.topic,
            "never",
            straggler.sent,
            type_=SubType.EXCLUSIVE,
            must_ack=lambda _: False,
        )
    setting.say(f"steady disk: {run.written_bytes:,} bytes written, {run.final_bytes:,} on disk")
    return run


async def _settled(connection: psycopg.AsyncConnection[tuple[object, ...]], size: int) -> int:
    """Return the size on disk once no more closed tables are dropped."""
    deadline = time.monotonic() + _SETTLE_S
    fell = time.monotonic()
    while time.monotonic() < min(deadline, fell + _STILL_S):
        await asyncio.sleep(_LOOK_EVERY_S)
        now = await _size(connection)
        if now != size:
            size, fell = now, time.monotonic()
    return size


async def _size(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> int:
    cursor = await connection.execute(_SIZE)
    row = await cursor.fetchone()
    return int(str(row[0])) if row else 0


class _Straggler:
    """A topic written as fast as each of the others, with a subscription that acks nothing."""

    def __init__(self, topic: str, producer: BinaryPeer) -> None:
        self.topic = topic
        self.sent = 0
        self._producer = producer
        self._receipts = 0
        self._entry = entries.single(os.urandom(PAYLOAD_BYTES)).data
        producer.on_receipt = self._on_receipt

    @classmethod
    async def start(cls, setting: Setting) -> _Straggler:
        topic = setting.fresh_topic("straggler")
        consumer = await BinaryPeer.connect(setting.pulsar_port)
        await consumer.subscribe(topic, "never", SubType.EXCLUSIVE)
        consumer.close()
        producer = await BinaryPeer.connect(setting.pulsar_port)
        await producer.open_producer(topic)
        return cls(topic, producer)

    async def send_through(self, count: int) -> None:
        """Send until `count` messages have been sent in total, and wait for their receipts."""
        for sequence_id in range(self.sent, count):
            self._producer.write(commands.send(0, sequence_id, self._entry))
        self.sent = max(self.sent, count)
        while self._receipts < self.sent:
            self._producer.check()
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Drop the connection."""
        self._producer.close()

    def _on_receipt(self, _: int) -> None:
        self._receipts += 1
