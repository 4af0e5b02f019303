"""Export the stored messages of a topic to files."""

from __future__ import annotations

import glob
import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pipeline.checksum import Checksum, checksum_of_frame
from pipeline.database import reading
from pipeline.errors import DataLost, EntriesMissing, InvalidOption, PipelineError, counted
from pipeline.jobs.files import MANIFEST, data_files, read_files, write_files
from pipeline.jobs.folders import finished_folder, place_in, require_shared
from pipeline.jobs.reporting import counted_tasks
from pipeline.option_values import OptionValues
from pipeline.schemas import sink_schemas
from pipeline.source.offsets import BEGINNING, OTHERS, Offsets, offsets_from_json, offsets_to_json
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read
from pipeline.source.topic_logs import find_topics

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pipeline.jobs.request import JobRequest, Reporter

__all__ = ["pin", "run"]

logger = logging.getLogger(__name__)

_TIME: Final = "%Y-%m-%dT%H-%M-%SZ"
_ANY_TIME: Final = "????-??-??T??-??-??Z"
_ON_LOST: Final = "set option on_lost to skip, and the rest is exported"


def run(request: JobRequest, reporter: Reporter, session: Callable[[], SparkSession]) -> dict[str, Any]:
    """Write the range that the options name, read the files back, then give the folder its name.

    If this raises PipelineError, it has made no folder of that name. A wrong option, an unknown topic and a folder that
    cannot be written are found before Spark starts. With `only_new` and nothing new, it writes no folder.
    """
    options = request.options
    source = request.source(onCorrupt=options["on_corrupt"])
    for name, option in (("starting_time", "startingTime"), ("ending_time", "endingTime")):
        if options[name]:
            source[option] = options[name]
    is_incremental = options["only_new"] == "true"
    if is_incremental:
        source |= _after_earlier_exports(request)
        if "startingOffsets" in source:
            source.pop("startingTime", None)  # only the first of these exports begins at this time
    try:
        pinned, stored_messages = pin(source)
    except DataLost as error:
        raise DataLost(error.problem, _ON_LOST) from None
    if is_incremental and not stored_messages:
        return {
            "messages": 0,
            "words": f"{request.topic} has no messages that earlier exports have not written"
            + (_future(options) if "startingTime" in source else ""),
        }
    # A scheduled export needs another folder each time.
    now = f"{datetime.now(UTC):{_TIME}}"
    target = place_in(request.folder, options["to"].replace("{time}", now))
    with finished_folder(target) as folder:
        spark = session()
        require_shared(spark, folder)
        with counted_tasks(spark, reporter):
            reporter.stage("write files")
            frame = spark.read.format("vela").options(**pinned).load()
            write_files(frame, folder, options["format"])
            reporter.stage("read them back")
            written = _written(spark, folder, options["format"])
        for sums in folder.glob(".*.crc"):
            sums.unlink()  # Hadoop's checksums, which would refuse a file that somebody has changed on purpose
        skipped = stored_messages - written.messages
        if skipped and options["on_corrupt"] != "skip":
            raise EntriesMissing(
                f"the topic had {counted(stored_messages, 'message', 'messages')}, but the files have"
                f" {written.messages}: the others were removed while the job ran"
            )
        until = json.loads(pinned["endingOffsets"])
        manifest = {
            "topic": request.topic,
            "format": options["format"],
            "messages": written.messages,
            "skipped_messages": skipped,
            "checksum": str(written),
            "until": {name: end for name, end in until.items() if name != OTHERS},
            "schemas": _schemas_of(spark, request, folder),
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    words = f"{counted(written.messages, 'message', 'messages')} in {target}, checksum {written}"
    if not stored_messages:
        words = f"no messages in {target}: {request.topic} has none {_range(options)}"
    elif skipped:
        words += f", {skipped} skipped as unreadable"
    result = {name: value for name, value in manifest.items() if name != "schemas"}
    return {**result, "folder": str(target), "words": words}


def pin(source: dict[str, str], *, starts: bool = False) -> tuple[dict[str, str], int]:
    """Return the options with the end of the read fixed, and the number of messages in the read.

    A partition that is added later is not part of the read. `starts` fixes the beginning too, so that the same options
    read the same messages later, or fail. Raises PipelineError.
    """
    options = ReadOptions.parse(source)
    with reading(options, f"planning the read of {options.label}") as connection:
        plan = plan_read(connection, options)
    pinned = {name: value for name, value in source.items() if name != "endingTime"}
    pinned["endingOffsets"] = json.dumps({**offsets_to_json(plan.ends), OTHERS: str(BEGINNING)})
    if starts:
        pinned.pop("startingTime", None)
        pinned["startingOffsets"] = json.dumps(offsets_to_json(plan.starts))
    return pinned, plan.messages


def _after_earlier_exports(request: JobRequest) -> dict[str, str]:
    """Return the data source's options for the messages that no export with this `to` has written.

    The manifests of those exports say how far they went. A manifest appears together with its files, so an export that
    failed or was killed leaves no gap, and its messages are in the next one.
    """
    to, found = request.options["to"], Offsets()
    newest: tuple[str, Offsets] = ("", {})
    if "{time}" not in to:
        raise InvalidOption(
            f"option to is {to!r}: with only_new each run needs a new name, so put {{time}} in it, such as"
            f" {to}/{{time}}"
        )
    names = _ANY_TIME.join(map(glob.escape, to.split("{time}")))
    for file in request.folder.glob(f"{names}/{MANIFEST}"):
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
            until = offsets_from_json(manifest["until"]) if manifest["topic"] == request.topic else {}
            newest = max(newest, (manifest["exported_at"] if until else "", until), key=itemgetter(0))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PipelineError(
                f"{file} is damaged, so it does not say which messages an earlier export has written: restore it, or"
                " move its folder away; if that is the newest one, the next run writes its messages again"
            ) from None
        for topic, end in until.items():
            found[topic] = max(found.get(topic, end), end, key=lambda offset: offset.position)
    options = {"failOnDataLoss": "false" if request.options["on_lost"] == "skip" else "true"}
    found = _still_there(request, found, newest[1])
    if found:
        options["startingOffsets"] = json.dumps(offsets_to_json(found))
    return options


def _still_there(request: JobRequest, found: Offsets, newest: Offsets) -> Offsets:
    """Return the offsets, except for topics and partitions that do not exist now.

    Raises DataLost if the newest export had one of them, unless on_lost is skip.
    """
    if not found:
        return found
    options = ReadOptions.parse(request.source())
    with reading(options, f"looking for {options.label}") as connection:
        names = {topic.name for topic in find_topics(connection, options)}
    if gone := sorted(newest.keys() - names):
        problem = (
            f"{gone[0]} was exported before and is gone: the topic was deleted, and perhaps created again with other"
            " partitions"
        )
        if request.options["on_lost"] != "skip":
            raise DataLost(problem, _ON_LOST)
        logger.warning("%s; on_lost is skip, so the rest is exported", problem)
    return {name: offset for name, offset in found.items() if name in names}


def _range(options: Mapping[str, str]) -> str:
    """Name the times that the options choose, so that users do not mistake a time in the future for an empty topic."""
    words = [
        f"{preposition} {options[name]}"
        for name, preposition in (("starting_time", "at or after"), ("ending_time", "before"))
        if options[name]
    ]
    return f"stored {' and '.join(words)}{_future(options)}" if words else "stored"


def _future(options: Mapping[str, str]) -> str:
    """Return a remark if `starting_time` is in the future; empty if not."""
    if not options["starting_time"]:
        return ""
    start_ms = OptionValues(options, tuple(options)).time_ms("starting_time")
    return "; starting_time is in the future" if (start_ms or 0) > time.time_ns() // 1_000_000 else ""


def _schemas_of(spark: SparkSession, request: JobRequest, folder: Path) -> dict[str, Any]:
    """Return the sink's option `schemas` for the versions that the files have.

    Leave out all other versions: an import adds every version to its topic, which may refuse one that the exported
    topic replaced long ago.
    """
    found: dict[str, Any] = json.loads(sink_schemas(url=request.url, topic=request.topic))
    files = data_files(folder, request.options["format"])
    if not found or not files:
        return {}
    frame = read_files(spark, files, request.options["format"])
    used = {str(row[0]) for row in frame.select("__schemaVersion").distinct().collect()}
    return {version: schema for version, schema in found.items() if version in used}


def _written(spark: SparkSession, folder: Path, format_: str) -> Checksum:
    files = data_files(folder, format_)
    return checksum_of_frame(read_files(spark, files, format_)) if files else Checksum()
