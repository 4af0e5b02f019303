"""Export a topic's messages to Parquet: `python -m pipeline.jobs.export_parquet --topic … --url … --out …`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from pipeline.checksum import Checksum, checksum_of_frame
from pipeline.database import reading
from pipeline.errors import EntriesMissing, InvalidOption, PipelineError, sentence_of
from pipeline.session import local_session
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read

__all__ = ["Export", "export", "main"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The result of an export."""

    written: Checksum  # read back from the Parquet files
    skipped_messages: int  # in entries that could not be decoded, with onCorrupt = skip


def export(spark: SparkSession, source: dict[str, str], out: str) -> Export:
    """Write the topic in the data source's options `source`, up to its current end, and read the files back.

    Raises PipelineError, and InvalidOption if `out` exists. Not safe to repeat into the same `out`.
    """
    pinned, stored_messages = _pin(source)
    try:
        spark.read.format("vela").options(**pinned).load().write.parquet(out)
        written = checksum_of_frame(spark.read.parquet(out))
    except PySparkException as error:
        if isinstance(error, AnalysisException) and error.getCondition() == "PATH_ALREADY_EXISTS":
            raise InvalidOption(f"{out} already exists: choose another folder or remove it") from None
        sentence = sentence_of(error)
        if sentence is None:
            raise
        raise PipelineError(sentence) from error
    skipped = stored_messages - written.messages
    if skipped and source.get("onCorrupt") != "skip":
        raise EntriesMissing(
            f"the topic had {stored_messages} messages, but {out} has {written.messages}: do not use it"
        )
    return Export(written=written, skipped_messages=skipped)


def _pin(source: dict[str, str]) -> tuple[dict[str, str], int]:
    """Return the options with the topic's end fixed, and the number of messages before that end."""
    options = ReadOptions.parse(source)
    with reading(options, f"planning the export of {options.label}") as connection:
        plan = plan_read(connection, options)
    ends = {topic: str(offset) for topic, offset in plan.ends.items()}
    return {**source, "endingOffsets": json.dumps(ends)}, plan.messages


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return 0 if it is done, 1 after one sentence about an error on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.jobs.export_parquet", description="Write a topic's messages as Parquet."
    )
    parser.add_argument("--topic", required=True, help="persistent://tenant/namespace/name, or short")
    parser.add_argument("--url", required=True, help="postgresql://user@host:5432/database of Vela")
    parser.add_argument("--out", required=True, help="folder to write; it must not exist")
    parser.add_argument(
        "--partitions", default="16", help="most tasks, each with a database connection while it runs (16)"
    )
    parser.add_argument(
        "--on-corrupt",
        default="fail",
        choices=["fail", "skip"],
        help="what to do about entries that cannot be decoded (fail)",
    )
    given = parser.parse_args(arguments)
    source = {
        "topic": given.topic,
        "url": given.url,
        "partitions": given.partitions,
        "onCorrupt": given.on_corrupt,
    }
    try:
        _pin(source)  # a wrong request fails here, before Spark starts
        spark = local_session("vela export")
        try:
            done = export(spark, source, given.out)
        finally:
            spark.stop()
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    skipped = f", {done.skipped_messages} skipped as unreadable" if done.skipped_messages else ""
    sys.stdout.write(f"{done.written.messages} messages in {given.out}, checksum {done.written}{skipped}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
