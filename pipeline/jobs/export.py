"""Export the stored messages of a topic to files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipeline.checksum import Checksum, checksum_of_frame
from pipeline.database import reading
from pipeline.errors import EntriesMissing
from pipeline.jobs.files import MANIFEST, data_files, read_files, write_files
from pipeline.jobs.folders import finished_folder, place_in
from pipeline.jobs.reporting import counted_tasks
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.request import JobRequest, Reporter

__all__ = ["pin", "run"]


def run(request: JobRequest, reporter: Reporter, session: Callable[[], SparkSession]) -> dict[str, Any]:
    """Write the range that the options name, read the files back, then give the folder its name.

    If this raises PipelineError, there is no folder of that name. A wrong option, an unknown topic and a folder that
    cannot be written are found before Spark starts.
    """
    options = request.options
    source = request.source(onCorrupt=options["on_corrupt"])
    for name, option in (("starting_time", "startingTime"), ("ending_time", "endingTime")):
        if options[name]:
            source[option] = options[name]
    pinned, stored_messages = pin(source)
    # A scheduled export needs another folder each time.
    time = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"
    target = place_in(request.folder, options["to"].replace("{time}", time))
    with finished_folder(target, request.write_id) as folder:
        spark = session()
        with counted_tasks(spark, reporter):
            reporter.stage("write files")
            frame = spark.read.format("vela").options(**pinned).load()
            write_files(frame, str(folder), options["format"])
            reporter.stage("read them back")
            written = _written(spark, folder, options["format"])
        for sums in folder.glob(".*.crc"):
            sums.unlink()  # Hadoop's checksums, which would refuse a file that somebody has changed on purpose
        skipped = stored_messages - written.messages
        if skipped and options["on_corrupt"] != "skip":
            raise EntriesMissing(
                f"the topic had {stored_messages} messages, but the files have {written.messages}: they were removed"
            )
        manifest = {
            "topic": request.topic,
            "format": options["format"],
            "messages": written.messages,
            "skipped_messages": skipped,
            "checksum": str(written),
            "until": json.loads(pinned["endingOffsets"]),
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    words = f"{written.messages} messages in {target}, checksum {written}"
    if skipped:
        words += f", {skipped} skipped as unreadable"
    return {**manifest, "folder": str(target), "words": words}


def pin(source: dict[str, str], *, starts: bool = False) -> tuple[dict[str, str], int]:
    """Return the options with the end of the read fixed, and the number of messages before that end.

    `starts` fixes the beginning too, so that the same options read the same messages later, or fail.
    """
    options = ReadOptions.parse(source)
    with reading(options, f"planning the read of {options.label}") as connection:
        plan = plan_read(connection, options)
    ends = {topic: str(offset) for topic, offset in plan.ends.items()}
    pinned = {name: value for name, value in source.items() if name != "endingTime"}
    pinned["endingOffsets"] = json.dumps(ends)
    if starts:
        pinned.pop("startingTime", None)
        pinned["startingOffsets"] = json.dumps({topic: str(offset) for topic, offset in plan.starts.items()})
    return pinned, plan.messages


def _written(spark: SparkSession, folder: Any, format_: str) -> Checksum:
    files = [str(path) for path in data_files(folder, format_)]
    return checksum_of_frame(read_files(spark, files, format_)) if files else Checksum()
