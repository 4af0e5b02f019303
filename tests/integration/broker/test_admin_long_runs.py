"""Pulsar's calls for offloads and compactions: what they start, and what they answer in each state of the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.core.topic_name import TopicName
from broker.doors.admin.application import AdminPages
from broker.doors.admin.statistics.topic import Asked, topic_stats
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics
from tests.support.broker_harness import BrokerRun, eventually, one_row, rows, running
from tests.support.compacting import compact, put
from tests.support.lifetime import keeping, publish_ledgers
from tests.support.offloading import offloaded

PATH = "/admin/v2/persistent/public/default/t/offload"


async def ask(run: BrokerRun, method: str, body: Any = None, path: str = PATH) -> tuple[int, Any]:
    """Send one request. Return the status and the JSON of the answer."""
    sent: list[Mapping[str, Any]] = []
    raw = b"" if body is None else json.dumps(body).encode()

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(event: Mapping[str, Any]) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await AdminPages(run.broker)(scope, receive, send)
    start, end = sent
    return start["status"], json.loads(end["body"]) if end["body"] else None


def end_run(run: BrokerRun, state: str, error: str = "") -> None:
    """End the run, as a worker does."""
    rows(
        run.database_url,
        "UPDATE vela_pipeline_run SET state = %s, error = %s, ended_at = now()",
        state,
        error,
    )


async def test_pulsars_api_starts_an_offload_and_reports_its_state(broker_url: str, tmp_path: Path) -> None:
    files_url = tmp_path.as_uri()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=files_url) as run:
        positions = await publish_ledgers(await run.producer(), 4)
        ledgers = sorted({each.ledger_id for each in positions})
        before = {"ledgerId": ledgers[2], "entryId": 0, "partitionIndex": -1}
        assert await ask(run, "GET") == (200, {"status": "NOT_RUN", "lastError": ""})

        assert await ask(run, "PUT", before) == (204, None)
        assert await ask(run, "GET") == (200, {"status": "RUNNING", "lastError": ""})
        status, refused = await ask(run, "PUT", before)
        assert (status, "already in progress" in refused["reason"]) == (409, True)

        end_run(run, "failed", "VELA_OFFLOAD_URL is not set")
        assert await ask(run, "GET") == (
            200,
            {"status": "ERROR", "lastError": "VELA_OFFLOAD_URL is not set"},
        )

        assert (await ask(run, "PUT", before))[0] == 204
        job, options = one_row(
            run.database_url,
            "SELECT job, options FROM vela_pipeline_run ORDER BY id DESC LIMIT 1",
        )
        assert (job, options["before_ledger"]) == ("offload", str(ledgers[2]))
        await offloaded(broker_url, files_url, before_ledger=options["before_ledger"])
        end_run(run, "done")
        status, answer = await ask(run, "GET")
        assert (status, answer["status"]) == (200, "SUCCESS")
        assert answer["firstUnoffloadedMessage"] | before == answer["firstUnoffloadedMessage"]
        assert sorted(run.topic().log.files) == ledgers[:2]

        assert (await ask(run, "PUT"))[0] == 400
        assert (await ask(run, "PUT", before, PATH.replace("/t/", "/none/")))[0] == 404
        assert (await ask(run, "PUT", before, PATH.replace("persistent", "non-persistent")))[0] == 405


async def test_a_failed_offload_of_a_partition_shows_in_its_statistics(
    broker_url: str, tmp_path: Path
) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, offload_url=tmp_path.as_uri()) as run:
        await repeat_until_done(
            run.broker.pool,
            lambda connection: topics.create_topic(
                connection, TopicName.parse("parts"), partitions=2, policies={}
            ),
            what="creating a topic",
        )
        for name in ("parts-partition-0", "parts-partition-1"):
            await publish_ledgers(await run.producer(name), 2)
        before = {"ledgerId": 1 << 40, "entryId": 0, "partitionIndex": -1}
        path = PATH.replace("/t/", "/parts-partition-0/")
        assert await ask(run, "PUT", before, path) == (204, None)
        end_run(run, "failed", "VELA_OFFLOAD_URL is not set")

        async def failed_ms(name: str) -> int:
            return (
                await topic_stats(run.broker, run.topic(name), Asked(), created_ms=0)
            ).lastOffloadFailureTimeStamp

        assert await failed_ms("parts-partition-0") > 0
        assert await failed_ms("parts-partition-1") == 0
        rows(
            run.database_url, "UPDATE vela_pipeline_run SET subject = %s", "persistent://public/default/parts"
        )
        assert min([await failed_ms(f"parts-partition-{at}") for at in range(2)]) > 0


async def test_a_compaction_that_waits_for_another_topics_is_reported_as_running(broker_url: str) -> None:
    path = PATH.replace("offload", "compaction")
    async with running(broker_url, compaction_rate_bytes=1) as run:
        await put(await run.producer(), "a=1", "a=2")
        await put(await run.producer("other"), "a=1", "a=2")
        assert await ask(run, "GET", path=path) == (200, {"status": "NOT_RUN", "lastError": ""})
        other = asyncio.create_task(compact(run, "other"))
        await eventually(lambda: run.topic("other").compacted.is_running, "the other run to begin")
        assert await ask(run, "PUT", path=path) == (204, None)
        await eventually(lambda: run.topic().compacted.is_running, "the run to begin")
        assert await ask(run, "GET", path=path) == (200, {"status": "RUNNING", "lastError": ""})
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
