"""Run a job of the pipeline inside the tests' Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.jobs.catalogue import find_job
from pipeline.jobs.request import JobRequest
from pipeline.option_values import full_topic_name

__all__ = ["JobRunner", "Recorder"]


@dataclass(slots=True)
class Recorder:
    """The stages that a job reported, and what it pinned."""

    stages: list[str] = field(default_factory=list)
    pinned: dict[str, Any] = field(default_factory=dict)

    def stage(self, name: str, of: int | None = None) -> None:
        self.stages.append(name)

    def progress(self, done: int, of: int | None = None) -> None:
        pass

    def pin(self, pinned: Mapping[str, Any]) -> None:
        self.pinned.update(pinned)


@dataclass(slots=True, kw_only=True)
class JobRunner:
    """Jobs over one database, with files in one folder."""

    url: str
    folder: Path
    spark: Callable[[], SparkSession]
    service_url: str = "pulsar://127.0.0.1:1"
    recorder: Recorder = field(default_factory=Recorder)

    def __call__(
        self,
        job: str,
        topic: str,
        *,
        write_id: str = "test",
        pinned: Mapping[str, Any] | None = None,
        options: Mapping[str, str] | None = None,
        **more: str,
    ) -> dict[str, Any]:
        """Run a job and return its result. Raises PipelineError."""
        request = JobRequest(
            job=job,
            topic=full_topic_name(topic),
            options=find_job(job).checked({**(options or {}), **more}),
            url=self.url,
            service_url=self.service_url,
            folder=self.folder,
            write_id=write_id,
            pinned=pinned or {},
        )
        run: Callable[..., dict[str, Any]] = import_module(f"pipeline.jobs.{find_job(job).module}").run
        return run(request, self.recorder, self.spark)
