"""The broker lock: lost and taken back, lost to another broker, held by a connection that is dead."""

from __future__ import annotations

import asyncio
import re

import pytest

from broker.core.errors import ServiceNotReady
from broker.process import ownership
from broker.process.ownership import BrokerAlreadyRuns
from broker.storage import ownership as store
from broker.storage.connection import Connection
from tests.support.broker_harness import BrokerRun, eventually, new_run, one_row, rows, running
from tests.support.postgres_proxy import Moment

TRY_LOCK = "pg_try_advisory_lock"


async def lock_is_back(run: BrokerRun) -> None:
    """Wait until the broker holds the lock again."""
    await eventually(lambda: run.broker.is_ready()[0], "the lock to be held again")


async def test_memory_is_kept_when_only_the_locks_connection_was_lost(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(4)
    await consumer.has(4)
    consumer.ack(positions[1])
    epoch = run.topic().owner_epoch
    trap = run.proxy.trap(TRY_LOCK, Moment.HOLD_REQUEST)
    run.proxy.cut("lock")
    await trap.caught.wait()
    assert not run.broker.is_ready()[0]
    await producer.publish(2)  # the topic's epoch is still valid, so appends continue
    assert len(consumer.deliveries) == 4  # but nothing is sent without the lock
    with pytest.raises(ServiceNotReady):
        await run.producer("another")
    trap.release()
    await lock_is_back(run)
    await consumer.has(6)
    assert len(consumer.positions) == len(set(consumer.positions)) == 6
    assert not consumer.closed
    assert not producer.closed
    assert run.topic().owner_epoch == epoch + 1
    assert run.subscription().dispatcher.unacked_messages == 5
    assert await consumer.ack_durably(positions[0]) is None
    assert one_row(run.database_url, "SELECT acked_messages FROM vela_cursor") == (2,)


async def test_pending_messages_are_reported_under_the_new_epoch(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    await producer.publish(3)
    await consumer.has(3)
    run.proxy.cut("lock")
    await eventually(lambda: run.topic().owner_epoch == 2, "the epoch to advance")
    await lock_is_back(run)
    await eventually(
        lambda: (
            rows(run.database_url, "SELECT owner_epoch, first_entry, last_entry FROM vela_pending_ack")
            == [(2, 0, 2)]
        ),
        "pending acks of the new epoch",
    )


async def test_the_lock_of_its_own_dead_connection_is_freed(run: BrokerRun) -> None:
    producer = await run.producer()
    run.proxy.orphan("lock")
    await eventually(lambda: not run.broker.is_ready()[0], "the loss to be noticed")
    await lock_is_back(run)
    await producer.publish(1)
    assert not producer.closed


async def test_a_broker_drops_its_topics_if_another_broker_has_taken_over(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(3)
    await consumer.has(3)
    trap = run.proxy.trap(TRY_LOCK, Moment.HOLD_REQUEST)
    run.proxy.cut("lock")
    await trap.caught.wait()
    async with running(run.database_url) as other:
        theirs = await other.consumer(permits=10)
        await theirs.has(3)
        assert theirs.positions == positions
        producer.send(b"stale")
        trap.release()
        await eventually(lambda: producer.closed and consumer.closed, "the old broker's clients to be let go")
        assert len(producer.receipts) == 3
        assert run.broker.topics.loaded == {}
        for refused in (run.producer(), run.consumer()):
            with pytest.raises(ServiceNotReady):
                await refused
        assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (3,)
        assert await theirs.ack_durably(*positions) is None
        assert len(theirs.deliveries) == 3
    await lock_is_back(run)  # the other broker died, so this one may serve again, from the stored state
    again = await run.consumer(permits=10)
    await (await run.producer()).publish(1)
    await again.has(1)
    assert again.positions[0] not in positions


async def test_topics_that_the_new_broker_did_not_load_are_dropped_too(run: BrokerRun) -> None:
    producer = await run.producer("quiet")
    await producer.publish(1)
    trap = run.proxy.trap(TRY_LOCK, Moment.HOLD_REQUEST)
    run.proxy.cut("lock")
    await trap.caught.wait()
    async with running(run.database_url):
        trap.release()
        await eventually(lambda: producer.closed, "the producer to be let go")
        assert run.broker.topics.loaded == {}


async def test_a_second_broker_names_the_first_and_leaves(run: BrokerRun) -> None:
    second = await new_run(run.database_url, lock_wait_s=0)
    with pytest.raises(BrokerAlreadyRuns, match="pid"):
        await second.start()
    await second.crash()


async def test_a_broker_that_waits_for_the_lock_says_so_once(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ownership, "_SILENT_WAIT_S", 0.0)
    monkeypatch.setattr(ownership, "_RETRY_S", 0.01)
    tries = 0

    async def try_lock(connection: Connection) -> bool:
        nonlocal tries
        tries += 1
        return await really_try_lock(connection)

    really_try_lock = store.try_lock
    monkeypatch.setattr(store, "try_lock", try_lock)
    second = await new_run(run.database_url, lock_wait_s=20)
    starting = asyncio.create_task(second.start())
    await eventually(lambda: tries > 3, "the second broker to look for the lock")
    await run.broker.stop()
    await starting
    said = [each for each in caplog.messages if "waiting" in each]
    await second.crash()
    (line,) = said
    assert re.fullmatch(r"waiting at most 20 s for another broker's lock \(.+ pid \d+, started .+\)", line)


async def test_a_clean_stop_frees_the_lock_before_its_connection_ends(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed_later() -> None:
        """Make the server end the backend of a closed connection later."""

    lock = run.broker.ownership._connection
    assert lock is not None
    with monkeypatch.context() as patched:
        patched.setattr(lock, "close", closed_later)
        await run.broker.stop()
    assert rows(run.database_url, "SELECT pid FROM pg_locks WHERE locktype = 'advisory'") == []
    await lock.close()


async def test_a_vanished_host_is_noticed_by_the_server_within_15_seconds(run: BrokerRun) -> None:
    for name, value in (
        ("tcp_keepalives_idle", "5"),
        ("tcp_keepalives_interval", "3"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "15s"),
    ):
        async with run.broker.pool.use() as connection:
            row = await (await connection.execute(f"SHOW {name}".encode())).fetchone()
        assert row == (value,) or (name == "tcp_user_timeout" and row == ("15000",))


async def test_a_broker_that_is_stopped_while_it_starts_records_the_stop(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the console would say that the broker is silent."""
    run = await new_run(broker_url)
    waits = asyncio.Event()

    async def wait() -> None:
        waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(run.broker.segments, "start", wait)
    starting = asyncio.create_task(run.broker.start())
    await waits.wait()
    starting.cancel()
    await asyncio.wait((starting,))
    assert one_row(broker_url, "SELECT stopped_at IS NOT NULL FROM vela_broker") == (True,)
    await run.broker.pool.close()
    await run.proxy.stop()
