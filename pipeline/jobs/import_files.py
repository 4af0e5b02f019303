"""Publish the messages in files to a topic. Messages that an earlier run of the import published are left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipeline.checksum import Checksum, checksum_of_frame
from pipeline.errors import InvalidOption, PipelineError, counted, sentence_of
from pipeline.jobs.failures import SPARK_ERRORS, failed, reason_of
from pipeline.jobs.files import MANIFEST, SUFFIXES, data_files, read_files
from pipeline.jobs.folders import place_in
from pipeline.jobs.reporting import counted_tasks
from pipeline.sink.stored_schemas import stored_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.request import JobRequest, Reporter

__all__ = ["run"]

# Each file is one task, so that its rows have the same order in every attempt. The sink recognises rows by their order.
_ONE_TASK: Final = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.minPartitionNum": "1",
}


def run(request: JobRequest, reporter: Reporter, session: Callable[[], SparkSession]) -> dict[str, Any]:
    """Read all files first, then publish them one by one, in the order of their names.

    A file is recognised by its name, the name of the imported folder, its content and `import_id`: as long as the
    topic's deduplication remembers, a repeated import publishes only the missing messages. Raises PipelineError. If a
    file cannot be read, or differs from the manifest of its export, nothing was published.
    """
    options = request.options
    place = place_in(request.folder, options["from"])
    if not place.exists():
        raise InvalidOption(f"{place} does not exist: name a folder or a file in {request.folder}")
    format_ = _format_of(place, options["format"])
    files = data_files(place, format_)
    for file in files:
        place_in(request.folder, file.relative_to(request.folder).as_posix())
    if not files:
        raise InvalidOption(f"{place} has no files whose names end in {SUFFIXES[format_]}")
    spark = session()
    for name, value in _ONE_TASK.items():
        spark.conf.set(name, value)
    try:
        with counted_tasks(spark, reporter):
            reporter.stage("read all files", len(files))
            found = _checked(spark, files, format_, reporter)
            schemas = _compare_with_manifest(place, found)
        reporter.stage("publish files", len(files))
        for number, file in enumerate(files):
            reporter.progress(number, len(files))
            _publish(spark, request, file, format_, _write_id(options["import_id"], place, file), schemas)
        reporter.progress(len(files), len(files))
    finally:
        for name in _ONE_TASK:
            spark.conf.unset(name)
    words = (
        f"{counted(found.messages, 'message', 'messages')} of {place} {'is' if found.messages == 1 else 'are'} in"
        f" {request.topic}; what an earlier attempt had stored already was left out"
    )
    return {
        "messages": found.messages,
        "files": len(files),
        "checksum": str(found),
        "topic": request.topic,
        "words": words,
    }


def _format_of(place: Path, asked: str) -> str:
    if asked != "auto":
        return asked
    names = [place.name] if place.is_file() else [path.name for path in place.iterdir()]
    found = [format_ for format_, suffix in SUFFIXES.items() if any(name.endswith(suffix) for name in names)]
    if len(found) != 1:
        raise InvalidOption(
            f"{place} has files of {len(found)} formats: set option format to parquet, ndjson or csv"
        )
    return found[0]


def _checked(spark: SparkSession, files: list[Path], format_: str, reporter: Reporter) -> Checksum:
    found = Checksum()
    for number, file in enumerate(files):
        try:
            found += checksum_of_frame(read_files(spark, [file], format_))
        except SPARK_ERRORS as error:
            raise PipelineError(
                f"{file} cannot be read as {format_}, and nothing was published:"
                f" {sentence_of(error) or reason_of(error)}"
            ) from error
        reporter.progress(number + 1, len(files))
    return found


def _compare_with_manifest(place: Path, found: Checksum) -> str:
    """Return the sink's option `schemas`, which the export has kept in the manifest; "" without a manifest.

    Raises PipelineError if the manifest is damaged, or says that the files have other messages.
    """
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        checksum, messages = manifest["checksum"], manifest["messages"]
        schemas = json.dumps(manifest["schemas"])
        stored_schemas(schemas)
    except (FileNotFoundError, NotADirectoryError):
        return ""  # not every file comes from an export
    except (ValueError, KeyError, TypeError, InvalidOption):
        raise PipelineError(
            f"{place / MANIFEST} is damaged, and nothing was published: restore it, or remove it to publish what is in"
            " the files"
        ) from None
    if checksum != str(found):
        raise PipelineError(
            f"{place} has {counted(found.messages, 'message', 'messages')} with checksum {found}, but"
            f" {MANIFEST} in it says {messages} with {checksum}, and nothing was published: a file is missing"
            " or was changed; if you changed the files, remove the manifest"
        )
    return schemas


def _publish(
    spark: SparkSession, request: JobRequest, file: Path, format_: str, write_id: str, schemas: str
) -> None:
    rate = int(request.options["messages_per_s"])
    target = request.target(request.topic, write_id=write_id, messages_per_s=rate)
    target["schemas"] = schemas
    frame = read_files(spark, [file], format_).coalesce(1)
    try:
        frame.write.format("vela").mode("append").options(**target).save()
    except SPARK_ERRORS as error:
        raise failed(error) or error from error


def _write_id(import_id: str, place: Path, file: Path) -> str:
    digest = blake2b(
        import_id.encode() + b"\0" + file.relative_to(place.parent).as_posix().encode(), digest_size=16
    )
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return f"import-{digest.hexdigest()}"
