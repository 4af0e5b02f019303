"""Run the job `offload` against a test's broker, and look at its files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeline.jobs import offload
from pipeline.jobs.catalogue import find_job
from pipeline.jobs.request import JobRequest
from pipeline.option_values import full_topic_name
from tests.support.broker_harness import rows

__all__ = ["FILES", "LEDGERS", "Silent", "attached_files", "files_in", "job_request", "offloaded"]

LEDGERS = "SELECT id, segment_id IS NOT NULL, file_name FROM vela_ledger ORDER BY id"
FILES = "SELECT name, state FROM vela_ledger_file ORDER BY ledger_id, name"


class Silent:
    """A reporter that drops everything."""

    def stage(self, name: str, of: int | None = None) -> None:
        pass

    def progress(self, done: int, of: int | None = None) -> None:
        pass

    def pin(self, pinned: Any) -> None:
        pass


def job_request(database_url: str, files_url: str, topic: str = "t", **options: str) -> JobRequest:
    """Return a request for the job. Without options, it offloads every sealed ledger."""
    return JobRequest(
        job="offload",
        topic=full_topic_name(topic),
        options=find_job("offload").checked(options or {"keep_bytes": "0"}),
        url=database_url,
        service_url="",
        folder=Path(),
        write_id="test",
        offload_url=files_url,
    )


async def offloaded(database_url: str, files_url: str, topic: str = "t", **options: str) -> dict[str, Any]:
    """Run the job to its end while the test's broker runs, and return its result."""
    request = job_request(database_url, files_url, topic, **options)
    return await asyncio.to_thread(offload.run, request, Silent(), lambda: None)


def files_in(files_url: str) -> list[str]:
    """Return the names of the files that exist."""
    root = Path(unquote(urlsplit(files_url).path))
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet"))


def attached_files(database_url: str) -> list[str]:
    """Return the names of the files from which ledgers are read."""
    return [row[2] for row in rows(database_url, LEDGERS) if row[2] is not None]
