"""The request for a run of a job, and the interface through which the job reports its progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from pipeline.errors import InvalidOption

__all__ = ["JobRequest", "Reporter"]

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One run of a job, with everything that the job may use."""

    job: str
    topic: str  # full name
    options: Mapping[str, str]  # as the catalogue checked them
    url: str  # of PostgreSQL
    service_url: str  # of the broker, for jobs that publish
    folder: Path  # names of files and folders are relative to it
    write_id: str  # the same for this run and the runs that continue it
    pinned: JsonObject = field(default_factory=dict)  # the data that an earlier run with this write_id pinned
    master: str = ""  # Spark's cluster; "": this machine
    executors_url: str = ""  # of PostgreSQL as Spark's executors use it; "": `url`
    cores: int = 2
    memory: str = "1g"
    niceness: int = 0  # of a job in a separate process, so that other processes run first
    read_bytes_per_s: int = 0  # 0: as fast as possible
    statement_timeout_ms: int = 30_000
    offload_url: str = ""  # where the files of offloaded ledgers are

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the request that a worker sends. Raises InvalidOption if a member is missing or unknown."""
        try:
            given = json.loads(text)
            return cls(**{**given, "folder": Path(given["folder"])})
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidOption(f"the request of the worker cannot be read: {error}") from None

    def on_executors(self) -> JobRequest:
        """Return the request for executors, with their address of the database instead of the driver's."""
        return replace(self, url=self.executors_url or self.url)

    def source(self, **more: str) -> dict[str, str]:
        """Return the data source's options for reading the topic.

        The driver plans with the same options, so it uses the executors' address of the database too.
        """
        options = {
            "topic": self.topic,
            "url": self.on_executors().url,
            "statementTimeoutMs": str(self.statement_timeout_ms),
            **more,
        }
        if self.offload_url:
            options["offloadUrl"] = self.offload_url
        if self.read_bytes_per_s:
            options["readBytesPerSecond"] = str(max(1, self.read_bytes_per_s // self.cores))
        return options

    def target(self, topic: str, *, write_id: str, messages_per_s: int) -> dict[str, str]:
        """Return the sink's options for one task that publishes to a topic. An entry has at most one second's rows."""
        return {
            "serviceUrl": self.service_url,
            "topic": topic,
            "writeId": write_id,
            "rowsPerSecond": str(messages_per_s),
            "batchRows": str(min(5_000, messages_per_s)),
        }


class Reporter(Protocol):
    """Receives the reports of a running job."""

    def stage(self, name: str, of: int | None = None) -> None:
        """Report that the next stage begins. `of` is its number of parts, if the job counts them itself."""

    def progress(self, done: int, of: int | None = None) -> None:
        """Report how many parts of the stage are done."""

    def pin(self, pinned: JsonObject) -> None:
        """Store `pinned` for the runs that continue this one."""
