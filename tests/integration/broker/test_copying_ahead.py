"""A topic that publishes much: its next rows are copied during a commit, and committed after it, whatever fails."""

from __future__ import annotations

import pytest

from broker.core.errors import PersistenceFailed
from broker.storage import prepared_connection
from tests.support.broker_harness import BrokerRun, ProducerProbe, eventually, one_row, payload_of, rows
from tests.support.postgres_proxy import Moment, Trap

COPY = 'COPY "vela_entry_1"'
LARGE = 300_000  # bytes of payload, so that the entry is stored with COPY
BAD = 77  # PostgreSQL refuses an entry with this many messages
SESSIONS = (
    " FROM pg_stat_activity"
    " WHERE datname = current_database() AND query LIKE '%COPY%' AND wait_event = 'ClientRead'"
    " AND state = 'active'"
)
HELD = f"SELECT count(*) {SESSIONS}"
FIRST = f"SELECT application_name {SESSIONS} ORDER BY xact_start LIMIT 1"


def large(number: int) -> bytes:
    return b"%d:" % number + bytes(LARGE)


def stored(run: BrokerRun) -> list[bytes]:
    """Return the numbers of the stored messages, in the order of their positions."""
    found = rows(run.database_url, "SELECT data FROM vela_entry ORDER BY ledger_id, entry_id")
    return [payload_of(row[0]).split(b":")[0] for row in found]


async def two_in_flight(run: BrokerRun, moment: Moment = Moment.HOLD_ROWS) -> tuple[ProducerProbe, Trap]:
    """Hold the COPY of message 1 at `moment`, while the rows of message 2 have been copied behind it."""
    producer = await run.producer()
    producer.send(b"0:")
    await producer.has_receipts(1)
    trap = run.proxy.trap(COPY, moment)
    producer.send(large(1))
    await trap.caught.wait()
    producer.send(large(2))
    log = run.topic().log
    await eventually(lambda: log.following is not None, "a batch to follow")
    held = 2 if moment is Moment.HOLD_ROWS else 1
    await eventually(lambda: one_row(run.database_url, HELD) == (held,), "the rows of both to be copied")
    return producer, trap


async def test_rows_that_were_copied_ahead_commit_after_those_before_them(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=100)
    producer, trap = await two_in_flight(run)
    for number in range(3, 9):
        producer.send(large(number))
    assert stored(run) == [b"0"]
    assert len(producer.receipts) == 1
    trap.release()
    await producer.has_receipts(9)
    assert [each.sequence_id for each in producer.receipts] == list(range(9))
    assert [each.entry_id for each in producer.receipts] == list(range(9))
    assert stored(run) == [b"%d" % number for number in range(9)]
    await consumer.has(9)
    assert [each.split(b":")[0] for each in consumer.payloads] == stored(run)


@pytest.mark.parametrize("moment", [Moment.HOLD_ROWS, Moment.HOLD_ANSWER], ids=["not stored", "stored"])
async def test_the_rows_behind_a_lost_commit_are_stored_after_it(run: BrokerRun, moment: Moment) -> None:
    producer, _ = await two_in_flight(run, moment)
    run.proxy.cut()
    producer.send(b"3:")
    await producer.has_receipts(4)
    assert [each.sequence_id for each in producer.receipts] == list(range(4))
    assert stored(run) == [b"0", b"1", b"2", b"3"]
    assert not producer.failed
    assert not producer.closed
    assert run.broker.writer.unknown_outcomes == 1


async def test_finding_out_what_is_stored_does_not_wait_for_the_rows_that_follow(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_connection, "_TURN_S", 60.0)
    producer, _ = await two_in_flight(run)
    (name,) = one_row(run.database_url, FIRST)
    assert run.proxy.cut(name) == 1
    await producer.has_receipts(3)
    assert stored(run) == [b"0", b"1", b"2"]
    assert run.broker.writer.unknown_outcomes == 1


async def test_rows_that_follow_are_looked_for_after_their_own_lost_commit(run: BrokerRun) -> None:
    producer, trap = await two_in_flight(run)
    lost = run.proxy.trap("COPY", Moment.LOSE_ANSWER)
    trap.release()
    await producer.has_receipts(3)
    producer.send(large(3))
    await lost.caught.wait()
    await producer.has_receipts(4)
    assert stored(run) == [b"0", b"1", b"2", b"3"]
    assert not producer.closed


async def test_a_lost_connection_gives_back_only_the_rows_that_follow(run: BrokerRun) -> None:
    producer, trap = await two_in_flight(run)
    log = run.topic().log
    first = log.in_flight
    run.proxy.cut("writer 1")
    run.proxy.cut("writer 2")
    await eventually(lambda: log.following is None, "the rows to be given back")
    if log.in_flight is first:
        assert stored(run) == [b"0"]
        trap.release()
    await producer.has_receipts(3)
    assert [each.sequence_id for each in producer.receipts] == list(range(3))
    assert stored(run) == [b"0", b"1", b"2"]
    assert not producer.closed


async def test_a_refused_append_refuses_the_rows_behind_it(run: BrokerRun) -> None:
    producer = await run.producer()
    producer.send(b"0:")
    await producer.has_receipts(1)
    rows(run.database_url, f"ALTER TABLE vela_entry_1 ADD CHECK (messages <> {BAD})")
    trap = run.proxy.trap(COPY, Moment.HOLD_ROWS)
    producer.send(large(1), messages=BAD)
    await trap.caught.wait()
    producer.send(large(2))
    await eventually(lambda: run.topic().log.following is not None, "a batch to follow")
    trap.release()
    await eventually(lambda: producer.closed, "the producer to be closed")
    assert isinstance(producer.closed[0], PersistenceFailed)
    assert len(producer.failed) == 2
    assert stored(run) == [b"0"]
    again = await run.producer()
    again.send(large(3))
    await again.has_receipts(1)
    assert stored(run) == [b"0", b"3"]


async def test_a_refused_row_that_follows_is_refused_after_the_commit_before_it(run: BrokerRun) -> None:
    producer = await run.producer()
    producer.send(b"0:")
    await producer.has_receipts(1)
    rows(run.database_url, f"ALTER TABLE vela_entry_1 ADD CHECK (messages <> {BAD})")
    trap = run.proxy.trap(COPY, Moment.HOLD_ROWS)
    producer.send(large(1))
    await trap.caught.wait()
    log = run.topic().log
    producer.send(large(2), messages=BAD)
    await eventually(lambda: log.in_flight and not log.in_flight.can_be_followed, "the copy ahead to fail")
    assert not producer.closed
    trap.release()
    await eventually(lambda: producer.closed, "the producer to be closed")
    assert len(producer.receipts) == 2
    assert len(producer.failed) == 1
    assert stored(run) == [b"0", b"1"]


async def test_rows_whose_turn_takes_too_long_are_copied_again(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_connection, "_TURN_S", 0.01)
    producer = await run.producer()
    producer.send(b"0:")
    await producer.has_receipts(1)
    trap = run.proxy.trap(COPY, Moment.HOLD_ROWS)
    producer.send(large(1))
    await trap.caught.wait()
    log = run.topic().log
    producer.send(large(2))
    await eventually(
        lambda: log.in_flight and not log.in_flight.can_be_followed, "the copy ahead to be given up"
    )
    trap.release()
    await producer.has_receipts(3)
    assert stored(run) == [b"0", b"1", b"2"]


async def test_a_fenced_topic_stores_nothing_that_was_copied_ahead(run: BrokerRun) -> None:
    producer, trap = await two_in_flight(run)
    run.topic().log.fence("tested")
    trap.release()
    await eventually(lambda: one_row(run.database_url, HELD) == (0,), "the transactions to end")
    assert stored(run) in ([b"0"], [b"0", b"1"])
    again = await run.producer()
    again.send(b"3:")
    await again.has_receipts(1)
    assert stored(run)[-1] == b"3"
    assert b"2" not in stored(run)
    assert producer.closed


async def test_an_advance_of_the_epoch_lets_both_commits_finish(run: BrokerRun) -> None:
    producer, trap = await two_in_flight(run)
    topic = run.topic()
    trap.release()
    assert await run.broker.epochs.advance({topic.log: topic.owner_epoch}) == {topic.log}
    await producer.has_receipts(3)
    assert stored(run) == [b"0", b"1", b"2"]
    assert not producer.closed


async def test_a_delayed_message_waits_for_the_commit(run: BrokerRun) -> None:
    producer = await run.producer()
    producer.send(b"0:")
    await producer.has_receipts(1)
    trap = run.proxy.trap(COPY, Moment.HOLD_ROWS)
    producer.send(large(1))
    await trap.caught.wait()
    log = run.topic().log
    producer.send(large(2), deliver_at_ms=1 << 60)
    await eventually(lambda: log.in_flight and not log.in_flight.can_be_followed, "the writer to look at it")
    assert log.following is None
    trap.release()
    await producer.has_receipts(3)
    assert stored(run) == [b"0", b"1", b"2"]
