"""Appends, by statement and by COPY: what is stored is read as it was sent, and only under the owner's epoch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate

import psycopg
import pytest

from broker.core.entry import StoredEntry
from broker.storage.connection import is_outcome_unknown
from broker.storage.log import entries as store
from broker.storage.log.pieces import FIRST_BYTES, PAGE_BYTES, divided
from broker.storage.prepared_connection import PreparedConnection
from tests.support.broker_fixtures import broker_url, run
from tests.support.broker_harness import BrokerRun, eventually, one_row, rows

__all__ = ["broker_url", "run"]

LEDGER = 900  # belongs to no topic: these appends bypass the broker
WAITS = """\
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'vela broker: appends' AND wait_event_type = 'Lock'"""
SIZES = [0, 1, FIRST_BYTES, FIRST_BYTES + 1, PAGE_BYTES // 2, PAGE_BYTES // 2 + 1, PAGE_BYTES - 1, PAGE_BYTES]
SIZES += [PAGE_BYTES + 1, 10_240, 2 * PAGE_BYTES, 131_500, 1_000_003]


@pytest.fixture
async def connection(run: BrokerRun) -> AsyncIterator[PreparedConnection]:
    connection = await PreparedConnection.open(run.database_url, name="appends")
    yield connection
    await connection.close()


@pytest.fixture(params=[0, 1 << 40], ids=["by COPY", "by statement"])
def any_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "COPY_BYTES", request.param)


def stored_entries(sizes: Sequence[int], *, ledger_id: int = LEDGER) -> list[StoredEntry]:
    """Entries with random data of these sizes."""
    seeded = random.Random(1)
    return [
        StoredEntry(
            ledger_id,
            number,
            number + 1,
            number % 3,
            None if number % 2 else 7 * number,
            number * 11,
            number * 13,
            number + 100,
            total,
            seeded.randbytes(size),
        )
        for number, (size, total) in enumerate(zip(sizes, accumulate(sizes), strict=True))
    ]


def append_rows(entries: dict[int, list[StoredEntry]]) -> store.AppendRows:
    found = store.AppendRows()
    for topic_id, each in entries.items():
        found.add(topic_id, each, size_bytes=sum(len(entry.data) for entry in each))
    return found


async def epochs_of(run: BrokerRun, *names: str) -> dict[int, int]:
    for name in names:
        await run.producer(name)
    return dict(
        rows(run.database_url, "SELECT topic_id, owner_epoch FROM vela_topic_owner ORDER BY topic_id")
    )


async def read_back(run: BrokerRun, ledger_id: int = LEDGER) -> list[StoredEntry]:
    async with run.broker.pool.use() as connection:
        return await store.read(
            connection, segment_id=1, ledger_id=ledger_id, first=0, last=1000, more_bytes=1 << 40
        )


@pytest.mark.parametrize("size", SIZES)
def test_pieces_join_to_the_entry_and_each_but_the_first_fills_a_part_of_a_page(size: int) -> None:
    data = random.Random(size).randbytes(size)
    first, rest = divided(data)
    assert b"".join((first, *rest)) == data
    assert len(first) <= FIRST_BYTES
    sizes = [len(piece) for piece in rest]
    assert set(sizes) <= {PAGE_BYTES, PAGE_BYTES // 2, PAGE_BYTES // 4}
    assert [each for each in sizes[2:] if each != PAGE_BYTES] == []


@pytest.mark.usefixtures("any_way")
async def test_entries_of_any_size_are_read_as_they_were_appended(
    run: BrokerRun, connection: PreparedConnection
) -> None:
    epochs = await epochs_of(run, "t")
    (topic_id,) = epochs
    entries = stored_entries(SIZES)
    stored = await store.append(
        connection, segment_id=1, epochs=epochs, rows=append_rows({topic_id: entries})
    )
    assert stored == {topic_id}
    assert await read_back(run) == entries
    async with run.broker.pool.use() as reader:
        some = await store.read_some(reader, segment_id=1, ledger_id=LEDGER, entry_ids=[11, 3])
    assert some == [entries[3], entries[11]]


async def test_the_server_plans_an_append_once(run: BrokerRun, connection: PreparedConnection) -> None:
    epochs = await epochs_of(run, "t")
    (topic_id,) = epochs
    for ledger_id in range(LEDGER, LEDGER + 10):
        append = append_rows({topic_id: stored_entries([1, 10_000], ledger_id=ledger_id)})
        await store.append(connection, segment_id=1, epochs=epochs, rows=append)
    plans = await connection.execute(
        b"SELECT sum(generic_plans)::bigint, sum(custom_plans)::bigint FROM pg_prepared_statements"
        b" WHERE statement LIKE 'WITH%'",
        [],
    )
    assert [int.from_bytes(plans.get_value(0, column) or b"") for column in (0, 1)] == [10, 0]


@pytest.mark.usefixtures("any_way")
async def test_a_fenced_topic_among_others_stores_nothing(
    run: BrokerRun, connection: PreparedConnection
) -> None:
    epochs = await epochs_of(run, "a", "b", "c")
    first, fenced, last = epochs
    rows(
        run.database_url,
        "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 1 WHERE topic_id = %s",
        fenced,
    )
    entries = {
        topic_id: stored_entries([100, 20_000, 3000], ledger_id=LEDGER + at)
        for at, topic_id in enumerate(epochs)
    }
    stored = await store.append(connection, segment_id=1, epochs=epochs, rows=append_rows(entries))
    assert stored == {first, last}
    assert await read_back(run, LEDGER) == entries[first]
    assert await read_back(run, LEDGER + 1) == []
    assert await read_back(run, LEDGER + 2) == entries[last]
    assert one_row(
        run.database_url, "SELECT count(*) FROM vela_entry_1_rest WHERE ledger_id = %s", LEDGER + 1
    ) == (0,)


@pytest.mark.usefixtures("any_way")
async def test_an_append_that_waited_for_an_advance_of_the_epoch_is_fenced(
    run: BrokerRun, connection: PreparedConnection
) -> None:
    epochs = await epochs_of(run, "a", "b", "c")
    first, fenced, last = epochs
    entries = {topic_id: stored_entries([100], ledger_id=LEDGER + at) for at, topic_id in enumerate(epochs)}
    with psycopg.connect(run.database_url) as owner:
        owner.execute(
            "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 1 WHERE topic_id = %s", [fenced]
        )
        append = asyncio.create_task(
            store.append(connection, segment_id=1, epochs=epochs, rows=append_rows(entries))
        )
        await eventually(lambda: one_row(run.database_url, WAITS) == (1,), "the append to wait")
        owner.commit()
    assert await asyncio.wait_for(append, 10) == {first, last}
    assert [await read_back(run, LEDGER + at) for at in range(3)] == [entries[first], [], entries[last]]


@pytest.mark.usefixtures("any_way")
@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param("ALTER TABLE vela_entry_1 ADD CONSTRAINT test_no CHECK (entry_id <> 40)", id="an entry"),
        pytest.param(
            "ALTER TABLE vela_entry_1_rest ADD CONSTRAINT test_no CHECK (entry_id <> 40)", id="a piece"
        ),
    ],
)
async def test_a_refused_row_leaves_nothing_stored_and_the_outcome_is_known(
    run: BrokerRun, connection: PreparedConnection, refusal: str
) -> None:
    epochs = await epochs_of(run, "t")
    (topic_id,) = epochs
    entries = stored_entries([5000] * 80)
    rows(run.database_url, refusal)
    with pytest.raises(psycopg.errors.CheckViolation) as raised:
        await store.append(connection, segment_id=1, epochs=epochs, rows=append_rows({topic_id: entries}))
    assert not is_outcome_unknown(raised.value, is_closed=connection.closed)
    assert await read_back(run) == []
    stored = await store.append(
        connection, segment_id=1, epochs=epochs, rows=append_rows({topic_id: entries[:30]})
    )
    assert stored == {topic_id}
    assert await read_back(run) == entries[:30]


@pytest.mark.usefixtures("any_way")
async def test_a_number_that_does_not_fit_is_refused_before_anything_is_sent(
    run: BrokerRun, connection: PreparedConnection
) -> None:
    epochs = await epochs_of(run, "t")
    (topic_id,) = epochs
    entries = [each._replace(messages=1 << 40) for each in stored_entries([10])]
    with pytest.raises(psycopg.DataError) as raised:
        await store.append(connection, segment_id=1, epochs=epochs, rows=append_rows({topic_id: entries}))
    assert not is_outcome_unknown(raised.value, is_closed=connection.closed)


async def test_a_lost_piece_leaves_an_entry_whose_checksum_is_wrong_and_no_error(
    run: BrokerRun, connection: PreparedConnection
) -> None:
    epochs = await epochs_of(run, "t")
    (topic_id,) = epochs
    entries = stored_entries([20_000, 10])
    await store.append(connection, segment_id=1, epochs=epochs, rows=append_rows({topic_id: entries}))
    rows(run.database_url, "DELETE FROM vela_entry_1_rest")
    first, second = await read_back(run)
    assert entries[0].data.startswith(first.data)
    assert second == entries[1]
