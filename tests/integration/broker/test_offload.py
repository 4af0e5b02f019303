"""Offloaded ledgers: read at the same positions, trimmed with their files, whole after a crash at any step."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from broker.core.position import EARLIEST
from broker.doors.admin.statistics.internal import internal_stats
from broker.doors.admin.statistics.topic import Asked, topic_stats
from pipeline import queries
from pipeline.jobs import offload
from pipeline.ledger_files.storage import FileStorage
from tests.support.broker_harness import BrokerRun, eventually, new_run, one_row, rows
from tests.support.lifetime import (
    ENTRIES,
    consumed,
    keeping,
    look,
    publish_ledgers,
    recounted,
    stored_ledgers,
)
from tests.support.offloading import FILES, LEDGERS, Silent, attached_files, files_in, job_request, offloaded
from tests.support.postgres_proxy import Moment

ATTACH = "UPDATE vela_ledger_file f SET state = 'attached'"
READ = "SELECT entry_id, messages, flags"


@pytest.fixture
def files_url(tmp_path: Path) -> str:
    """The URL of a folder for the ledger files."""
    (tmp_path / "files").mkdir()
    return (tmp_path / "files").as_uri()


async def turn(run: BrokerRun) -> None:
    """Do what the lifetime task does with files and segments."""
    await run.broker.lifetime.look_at_segments()


async def close_segment(run: BrokerRun) -> int:
    """Close the open segment, so that later entries go to the next one. Return the closed segment's id."""
    closing = run.broker.segments.open_id
    await run.broker.segments._open_next()
    await run.broker.segments._refresh_views()
    rows(run.database_url, "UPDATE vela_segment SET state = 'closed', closed_ms = 1 WHERE id = %s", closing)
    return closing


async def test_a_consumer_rewound_into_offloaded_ledgers_gets_every_message(
    broker_url: str, files_url: str
) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 5)
        await consumed(run, len(positions))
        middle_ms = await run.topic().reader.append_ms(positions[6])
        assert middle_ms is not None
        result = await offloaded(broker_url, files_url)
        assert (result["ledgers"], result["attached"]) == (4, 4)
        assert [row[1] for row in rows(broker_url, LEDGERS)] == [False] * 4 + [True]
        assert sorted(attached_files(broker_url)) == files_in(files_url)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (ENTRIES,)
        assert (await offloaded(broker_url, files_url))["words"].startswith(
            "the options choose no sealed ledger"
        )
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as again:
        consumer = await again.consumer(name="rewound")
        assert consumer.consumer is not None
        await consumer.consumer.seek_position(EARLIEST, None)
        back = await again.consumer(name="rewound", permits=100)
        await back.has(len(positions))
        assert back.positions == positions
        assert back.payloads == [b"%d" % number for number in range(len(positions))]
        reader = again.topic().reader
        found = await reader.position_at_time(middle_ms)
        assert found <= positions[6]
        assert (await reader.append_ms(found) or 0) >= middle_ms
        assert await reader.messages_through(positions[6]) == 7
        assert [each.entry_id for each in await reader.read_chosen([positions[1], positions[6]])] == [1, 2]
        await recounted(again)


async def test_a_segment_whose_ledgers_are_offloaded_is_dropped_and_appends_go_on(
    broker_url: str, files_url: str
) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        producer = await run.producer()
        await run.consumer()
        positions = await publish_ledgers(producer, 3)
        segment = await close_segment(run)
        positions += await producer.publish(1)
        await offloaded(broker_url, files_url)
        await turn(run)
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]
        positions += await producer.publish(1)
        run.topic().log.cached.clear()
        consumer = await run.consumer(name="late", permits=100)
        await consumer.has(len(positions))
        assert consumer.positions == positions


async def test_a_read_under_way_while_its_ledger_is_offloaded_finds_the_file(
    broker_url: str, files_url: str
) -> None:
    async with keeping(
        broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url, tail_cache_bytes=0
    ) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        consumer = await run.consumer()
        segment = await close_segment(run)
        await look(run)
        trap = run.proxy.trap(READ, Moment.HOLD_REQUEST)
        consumer.flow(100)
        await trap.caught.wait()
        await offloaded(broker_url, files_url)
        await turn(run)
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]
        trap.release()
        await consumer.has(len(positions))
        assert consumer.positions == positions
        assert (run.subscription().gap, run.subscription().read_fault) == ("", "")


async def test_retention_trims_offloaded_ledgers_and_deletes_their_files(
    broker_url: str, files_url: str
) -> None:
    async with keeping(broker_url, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 4)
        await run.consumer()
        await offloaded(broker_url, files_url)
        assert len(files_in(files_url)) == 3
        consumer = await run.consumer(name="acks", permits=8, acks=False)
        await consumer.has(2 * ENTRIES)
        await consumer.ack_durably(*positions[: 2 * ENTRIES])
        await look(run)
        await turn(run)
        assert len(stored_ledgers(broker_url)) == 2
        assert files_in(files_url) == attached_files(broker_url)
        assert len(rows(broker_url, FILES)) == 1
        await recounted(run)


async def test_a_topic_that_is_trimmed_to_its_end_names_no_file(broker_url: str, files_url: str) -> None:
    async with keeping(broker_url, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 2)
        await run.consumer()
        await close_segment(run)
        await look(run)
        await offloaded(broker_url, files_url)
        assert len(attached_files(broker_url)) == 2
        await consumed(run, len(positions))
        await look(run)
        await turn(run)
        assert rows(broker_url, LEDGERS)[0][1:] == (False, None)
        assert (files_in(files_url), rows(broker_url, FILES)) == ([], [])
        assert run.topic().log.ledgers.total_messages == len(positions)


async def test_the_files_of_a_deleted_topic_are_deleted(broker_url: str, files_url: str) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        producer = await run.producer()
        await publish_ledgers(producer, 3)
        await offloaded(broker_url, files_url)
        assert len(files_in(files_url)) == 2
        await run.broker.endings.delete(run.topic().name, force=True)
        await turn(run)
        assert (files_in(files_url), rows(broker_url, FILES)) == ([], [])


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER, Moment.LATE_REQUEST])
async def test_an_attach_whose_answer_is_lost_is_repeated(
    broker_url: str, files_url: str, moment: Moment
) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 2)
        trap = run.proxy.trap(ATTACH, moment)
        job = asyncio.ensure_future(offloaded(broker_url, files_url))
        await trap.caught.wait()
        if moment is not Moment.LATE_REQUEST:
            trap.release()
        assert (await job)["attached"] == 1
        if moment is Moment.LATE_REQUEST:
            trap.release()
            await trap.passed.wait()
        await eventually(lambda: run.topic().log.files, "the broker knows")
        assert attached_files(broker_url) == files_in(files_url) == list(run.topic().log.files.values())
        await turn(run)
        assert len(files_in(files_url)) == 1
        run.topic().log.cached.clear()
        consumer = await run.consumer(permits=100)
        await consumer.has(len(positions))
        assert consumer.positions == positions


async def test_a_broker_that_dies_while_it_attaches_leaves_a_ledger_that_is_whole(
    broker_url: str, files_url: str
) -> None:
    run = await new_run(
        broker_url,
        ledger_max_entries=ENTRIES,
        default_retention_ms=-1,
        default_retention_bytes=-1,
        offload_url=files_url,
    )
    await run.start()
    positions = await publish_ledgers(await run.producer(), 3)
    trap = run.proxy.trap(ATTACH, Moment.LOSE_ANSWER)
    job = asyncio.ensure_future(offloaded(broker_url, files_url))
    await trap.caught.wait()
    await run.crash()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as again:
        await turn(again)
        assert (await job)["attached"] == 2
        assert sorted(attached_files(broker_url)) == files_in(files_url)
        consumer = await again.consumer(permits=100)
        await consumer.has(len(positions))
        assert consumer.positions == positions


async def test_a_file_of_a_ledger_that_was_trimmed_meanwhile_is_deleted(
    broker_url: str, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload, "_hand_over", lambda *_: 0)
    async with keeping(broker_url, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 2)
        await run.consumer()
        trap = run.proxy.trap("SELECT f.name, f.topic_id, t.name", Moment.HOLD_ANSWER)
        await offloaded(broker_url, files_url)
        await trap.caught.wait()
        await consumed(run, len(positions))
        await look(run)
        trap.release()
        await eventually(lambda: files_in(files_url) == [], "the file is deleted")
        assert attached_files(broker_url) == []


@pytest.mark.parametrize("how", ["cut", "of other entries", "gone"])
async def test_a_file_that_is_not_the_ledger_is_refused_and_the_rows_stay(
    broker_url: str, files_url: str, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        trap = run.proxy.trap("SELECT f.name, f.topic_id, t.name", Moment.HOLD_REQUEST)
        job = asyncio.ensure_future(offloaded(broker_url, files_url))
        await trap.caught.wait()
        await eventually(lambda: [row[1] for row in rows(broker_url, FILES)] == ["written"] * 2, "both files")
        first, second = (tmp_path / "files" / row[0] for row in rows(broker_url, FILES))
        match how:
            case "cut":
                first.write_bytes(first.read_bytes()[:-100])
            case "of other entries":
                first.write_bytes(second.read_bytes())
            case _:
                first.unlink()
        trap.release()
        assert (await job)["attached"] == 1
        assert [row[1] for row in rows(broker_url, LEDGERS)] == [True, False, True]
        await turn(run)
        assert files_in(files_url) == attached_files(broker_url)
        run.topic().log.cached.clear()
        consumer = await run.consumer(permits=100)
        await consumer.has(len(positions))
        assert consumer.positions == positions


@pytest.mark.parametrize("step", ["begin", "write", "read back", "written"])
async def test_what_a_killed_run_leaves_is_deleted_or_taken_over(
    broker_url: str, files_url: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends as if killed with SIGKILL, so it cleans nothing up."""

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    def query(name: str, file: str) -> bytes:
        if step == "written" and name == "ask":
            raise Killed
        return b"SELECT %s::text" if name == "give_up" else queries.query(name, file)

    monkeypatch.setattr(offload, "query", query)
    match step:
        case "begin":
            monkeypatch.setattr(FileStorage, "writing", die)
        case "write":
            monkeypatch.setattr("pipeline.ledger_files.writer.batch_of", die)
        case "read back":
            monkeypatch.setattr("pipeline.ledger_files.writer.verify", die)
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        await publish_ledgers(await run.producer(), 2)
        with pytest.raises(Killed):
            offload.run(job_request(broker_url, files_url), Silent(), lambda: None)
        monkeypatch.undo()
        if step == "written":
            await turn(run)
            assert [row[1] for row in rows(broker_url, FILES)] == ["attached"]
            return
        assert [row[1] for row in rows(broker_url, FILES)] == ["writing"]
        await turn(run)
        assert len(rows(broker_url, FILES)) == 1  # the file may belong to a run that still works
        assert (await offloaded(broker_url, files_url))["attached"] == 1  # the next run takes the file over
        await turn(run)
        assert files_in(files_url) == attached_files(broker_url)
        assert [row[1] for row in rows(broker_url, FILES)] == ["attached"]


async def test_files_of_a_run_that_never_came_back_are_deleted_after_an_hour(
    broker_url: str, files_url: str, tmp_path: Path
) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        await publish_ledgers(await run.producer(), 1)
        (tmp_path / "files" / "1").mkdir()
        (tmp_path / "files" / "1" / "old.parquet").touch()
        rows(
            broker_url,
            "INSERT INTO vela_ledger_file (name, topic_id, ledger_id, state, format_version, entries, messages,"
            " size_bytes, file_bytes, checksum, write_id, created_at) SELECT '1/old.parquet', topic_id, id, 'writing',"
            " 0, 0, 0, 0, 0, '', 'gone', now() - interval '61 min' FROM vela_ledger",
        )
        await turn(run)
        assert (files_in(files_url), rows(broker_url, FILES)) == ([], [])


async def test_while_the_storage_is_away_a_consumer_waits_and_new_messages_go_on(
    broker_url: str, files_url: str, tmp_path: Path
) -> None:
    async with keeping(
        broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url, tail_cache_bytes=0
    ) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        await offloaded(broker_url, files_url)
        (tmp_path / "files").rename(tmp_path / "away")
        waiting = await run.consumer(permits=100)
        other = await run.consumer("other", permits=100)
        fresh = await (await run.producer("other")).publish(3)
        await other.has(3)
        assert other.positions == fresh
        assert waiting.positions == []
        fault = run.subscription().read_fault
        assert files_url in fault
        assert "its folder does not exist" in fault
        await run.broker.reporter._report()
        assert (fault,) in rows(broker_url, "SELECT read_fault FROM vela_subscription_obstacles")
        assert re.search(
            r"^brk_ledgeroffloader_read_offload_error{.*} [1-9]", run.metrics_text(), re.MULTILINE
        )
        (tmp_path / "away").rename(tmp_path / "files")
        await waiting.has(len(positions))
        assert waiting.positions == positions
        assert run.subscription().gap == ""


async def test_statistics_name_what_is_offloaded(broker_url: str, files_url: str) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        await publish_ledgers(await run.producer(), 3)
        await offloaded(broker_url, files_url)
        topic = run.topic()
        assert [each.offloaded for each in internal_stats(topic).ledgers] == [True, True, False]
        found = await topic_stats(run.broker, topic, Asked(), created_ms=0)
        moved = [each for each in topic.log.ledgers if each.ledger_id in topic.log.files]
        assert found.offloadedStorageSize == sum(each.size_bytes for each in moved) < found.storageSize
        assert found.lastOffloadLedgerId == moved[-1].ledger_id
        assert found.lastOffloadSuccessTimeStamp >= moved[-1].last_append_ms
        assert found.lastOffloadFailureTimeStamp == 0
        assert re.search(
            rf"^pulsar_storage_offloaded_size{{.*}} {found.offloadedStorageSize}$",
            run.metrics_text(),
            re.MULTILINE,
        )


async def test_age_and_size_choose_the_oldest_ledgers(broker_url: str, files_url: str) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        await publish_ledgers(await run.producer(), 3)
        young = await offloaded(broker_url, files_url, older_than_minutes="5")
        assert young["ledgers"] == 0
        size_bytes = one_row(broker_url, "SELECT max(size_bytes) FROM vela_ledger")[0]
        kept = await offloaded(broker_url, files_url, keep_bytes=str(size_bytes))
        assert kept["attached"] == 1
        assert [row[1] for row in rows(broker_url, LEDGERS)] == [False, True, True]
