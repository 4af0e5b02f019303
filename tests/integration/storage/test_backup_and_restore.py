"""Back up while a producer sends, restore, and start a broker on the result: which messages a consumer then gets."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from broker.core.subscription.types import SubscriptionType
from config.run.postgres.server import PostgresServer
from tests.support.broker_harness import BrokerRun, ConsumerProbe, ProducerProbe, eventually, one_row, running
from tests.support.ports import free_ports
from tests.support.postgres import FAST, fresh_database, world_readable_folder
from tests.support.waiting import wait_until

EPOCH = "SELECT owner_epoch FROM vela_topic_owner"


def client(server: PostgresServer, *command: str) -> None:
    """Run one of PostgreSQL's programs as the user that owns the server's files."""
    subprocess.run(
        [server.binaries / command[0], *command[1:]],
        check=True,
        timeout=60,
        cwd="/",
        env={"LC_ALL": "C"},
        **{name: value for name, value in server.user.popen_arguments().items() if name != "cwd"},
    )


@asynccontextmanager
async def sending(producer: ProducerProbe) -> AsyncIterator[None]:
    """Send one message after another in the background, each with its number as its payload."""

    async def send() -> None:
        while True:
            await producer.publish(1)

    task = asyncio.create_task(send())
    try:
        sent = len(producer.receipts)
        await eventually(lambda: len(producer.receipts) > sent, "the producer sends")
        yield
        stored = len(producer.receipts)
        await eventually(lambda: len(producer.receipts) > stored, "the producer still sends")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await producer.has_receipts(producer.next_sequence_id)


async def ack_first(consumer: ConsumerProbe, count: int) -> None:
    """Ack the first `count` messages, and wait until the ack is stored."""
    await consumer.has(count)
    assert await consumer.ack_durably(consumer.positions[count - 1], cumulative=True) is None


async def delivered(run: BrokerRun) -> list[int]:
    """Send the message -1 to the restored broker, and return all numbers that a consumer gets, up to the -1."""
    producer = await run.producer()
    producer.send(b"-1")
    consumer = await run.consumer(type_=SubscriptionType.EXCLUSIVE, permits=100_000, acks=True)
    await eventually(lambda: b"-1" in consumer.payloads, "the message that was sent after the restore")
    return [int(payload) for payload in consumer.payloads]


@contextmanager
def started(server: PostgresServer) -> Iterator[PostgresServer]:
    """Start a server whose data folder exists already, and stop it at the end."""
    server.start()
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture
def folder(postgres: PostgresServer) -> Iterator[Path]:
    """A folder that belongs to the user that PostgreSQL runs as."""
    with world_readable_folder() as made:
        postgres.user.own(made)
        yield made


async def test_a_dump_has_the_state_of_one_moment_and_a_broker_continues_from_it(
    postgres: PostgresServer, broker_url: str, folder: Path
) -> None:
    dump = str(folder / "vela.dump")
    async with running(broker_url) as run:
        producer = await run.producer()
        await producer.publish(30)
        consumer = await run.consumer(type_=SubscriptionType.EXCLUSIVE, permits=100_000)
        await ack_first(consumer, 10)
        async with sending(producer):
            await asyncio.to_thread(
                client, postgres, "pg_dump", "--format=custom", f"--file={dump}", broker_url
            )
        await ack_first(consumer, 20)
        sent = len(producer.receipts)
        with fresh_database(postgres.url, "restored", template="template0") as restored:
            await asyncio.to_thread(
                client, postgres, "pg_restore", "--no-owner", "--exit-on-error", f"--dbname={restored}", dump
            )
            epoch = one_row(restored, EPOCH)[0]
            # The broker of the old database still runs: each database has a separate broker lock.
            async with running(restored) as second:
                numbers = await delivered(second)
                assert one_row(restored, EPOCH)[0] > epoch
    # Messages acked before the dump are not delivered. Messages acked later are. Messages stored later are lost.
    stored = len(numbers) - 1 + 10
    assert numbers == [*range(10, stored), -1]
    assert 30 <= stored < sent


async def test_a_base_backup_and_its_wal_lead_to_any_moment_since(
    postgres: PostgresServer, migrated: str, folder: Path
) -> None:
    archive = folder / "wal"
    archive.mkdir()
    postgres.user.own(archive)
    source = PostgresServer(
        binaries=postgres.binaries,
        major=postgres.major,
        folder=folder / "source",
        port=free_ports(1)[0],
        user=postgres.user,
        configuration={
            **FAST,
            "archive_mode": "on",
            "archive_command": f"test ! -f {archive}/%f && cp %p {archive}/%f",
        },
    )
    source.create()
    with started(source):
        tables = str(folder / "tables.dump")
        empty = f"{postgres.url.rpartition('/')[0]}/{migrated}"
        client(postgres, "pg_dump", "--format=custom", f"--file={tables}", empty)
        client(source, "pg_restore", "--no-owner", "--exit-on-error", f"--dbname={source.url}", tables)
        async with running(source.url) as run:
            producer = await run.producer()
            await producer.publish(30)
            consumer = await run.consumer(type_=SubscriptionType.EXCLUSIVE, permits=100_000)
            await ack_first(consumer, 10)
            copy = folder / "copy"
            async with sending(producer):
                await asyncio.to_thread(
                    client,
                    source,
                    "pg_basebackup",
                    f"--dbname={source.url}",
                    f"--pgdata={copy}",
                    "--checkpoint=fast",
                )
            await ack_first(consumer, 20)
            stored = len(producer.receipts)
            (moment,) = one_row(source.url, "SELECT clock_timestamp()::text")
            await producer.publish(10)
            await ack_first(consumer, 30)
        archived_up_to_now(source.url)
    restored = PostgresServer(
        binaries=postgres.binaries,
        major=postgres.major,
        folder=folder / "restored",
        port=source.port,
        user=postgres.user,
    )
    restored.folder.mkdir()
    shutil.copy(source.folder / "password", restored.folder)
    copy.rename(restored.data)
    (restored.data / "recovery.signal").touch()
    with (restored.data / "postgresql.conf").open("a") as configuration:
        configuration.write(
            f"restore_command = 'cp {archive}/%f %p'\n"
            f"recovery_target_time = '{moment}'\n"
            "recovery_target_action = 'promote'\n"
            "archive_mode = off\n"
        )
    with started(restored):
        async with running(restored.url) as second:
            assert await delivered(second) == [*range(20, stored), -1]


def archived_up_to_now(url: str) -> None:
    """Wait until the archive has everything that was written so far."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
        assert row is not None

        def is_there() -> bool:
            last = connection.execute("SELECT last_archived_wal FROM pg_stat_archiver").fetchone()
            return last is not None and (last[0] or "") >= row[0]

        wait_until(is_there, "the archive has the last WAL file")
