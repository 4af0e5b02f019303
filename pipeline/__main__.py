"""Run one job: `python -m pipeline export --topic orders --url postgresql://… --to orders`.

A worker starts `python -m pipeline --supervised` instead, and writes the request as one line of JSON to standard input.
It keeps standard input open, so that the job ends when the worker does. The job writes a line of JSON for each report
to standard output. After a report that has the member `pinned`, the job waits until the worker has stored it and
answers with an empty line.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pipeline.errors import OR_READ_ON, OR_TWICE, SKIP_CORRUPT, PipelineError, sentence_of
from pipeline.java import has_ended
from pipeline.jobs.catalogue import JOBS, Job, find_job
from pipeline.jobs.reporting import JsonReporter, TerminalReporter
from pipeline.jobs.request import JobRequest
from pipeline.option_values import full_topic_name
from pipeline.priority import give_way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.request import Reporter

__all__ = ["main"]


_INTERRUPTED: Final = 128 + signal.SIGINT  # the exit code of an interrupted process, as in shells
_LEAST_HEAP_MB: Final = 512  # Spark refuses to start with less than 450 MB
_JAVA_ENDED: Final = (
    "Java ended while the job ran: perhaps the system had too little memory; lower VELA_PIPELINE_MEMORY_MB, or give the"
    " machine more"
)


class _Failed(Exception):
    """The job failed; the message says why, in one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return 0 if the job succeeded, 1 if it failed and reported why in one sentence.

    Return 130 if the user interrupted it.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    return _supervised() if given == ["--supervised"] else _in_a_terminal(given)


def _in_a_terminal(arguments: Sequence[str]) -> int:
    given = vars(_parser().parse_args(arguments))
    job = find_job(given["job"])
    try:
        options = {
            option.name: given[option.name] for option in job.options if given[option.name] is not None
        }
        request = JobRequest(
            job=job.name,
            topic=full_topic_name(given["topic"]),
            options=job.checked(options),
            url=given["url"],
            service_url=given["service_url"],
            folder=Path(given["folder"]),
            write_id=given["write_id"] or uuid.uuid4().hex,
            master=given["master"],
            cores=given["cores"],
            memory=given["memory"],
            read_bytes_per_s=given["read_bytes_per_s"],
            offload_url=given["offload_url"],
        )
        result = _run(request, TerminalReporter(sys.stderr))
    except (PipelineError, _Failed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    sys.stdout.write(f"{result['words']}\n")
    return 0


def _supervised() -> int:
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # What Java and Spark's Python processes print goes to standard error, and does not mix with the reports.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    is_stored = threading.Event()
    reporter = JsonReporter(reports, is_stored)
    line = sys.stdin.readline()
    threading.Thread(target=_listen_to_the_worker, args=(is_stored,), name="worker", daemon=True).start()
    signal.signal(signal.SIGTERM, _stop)
    try:
        request = JobRequest.from_json(line)
        give_way(request.niceness)
        reporter.send({"result": _run(request, reporter)})
    except (PipelineError, _Failed) as error:
        reporter.send({"error": str(error)})
        return 1
    return 0


def _listen_to_the_worker(is_stored: threading.Event) -> None:
    """Wait for the worker's answer that it has stored `pinned`. If the worker dies, end this process and Java."""
    while os.read(sys.stdin.fileno(), 1):  # sys.stdin.read would keep a lock that Python needs when it ends
        is_stored.set()
    os.killpg(0, signal.SIGKILL)


def _stop(_number: int, _frame: object) -> NoReturn:
    """Leave through the `finally` blocks, which remove unfinished files."""
    raise SystemExit(1)


def _run(request: JobRequest, reporter: Reporter) -> dict[str, Any]:
    """Run the job and return its result. Raises _Failed, which says why in one sentence."""
    started: list[SparkSession] = []

    def session() -> SparkSession:
        from pipeline.java import require_java
        from pipeline.session import spark_session

        require_java()  # fails before the first stage if Java is missing
        reporter.stage("start Spark")
        try:
            spark = spark_session(
                f"vela {request.job}", master=request.master, cores=request.cores, memory=request.memory
            )
        except Exception as error:
            if isinstance(error, ConnectionError):  # the socket over which Python talks to Java was closed
                raise _Failed(_JAVA_ENDED) from error
            if not request.master:
                raise
            traceback.print_exc()
            raise _Failed(
                f"Spark cannot start on {request.master}: {_reason(error)}; check VELA_SPARK_MASTER, and that the"
                " cluster runs the same version of Spark; the log has the rest"
            ) from error
        started.append(spark)
        return spark

    try:
        run: Callable[..., dict[str, Any]] = import_module(
            f"pipeline.jobs.{find_job(request.job).module}"
        ).run
        return run(request, reporter, session)
    except _Failed:
        raise
    except Exception as error:
        if any(has_ended(spark) for spark in started):
            raise _Failed(_JAVA_ENDED) from error
        raise _Failed(_for_job(_sentence(error), find_job(request.job))) from error
    finally:
        for spark in started:
            with suppress(Exception):  # Java may be gone; only the job's own result or error matters
                spark.stop()


def _for_job(sentence: str, job: Job) -> str:
    """Return the sentence, with a job's own advice in place of advice about options that jobs do not have."""
    said = sentence.replace(SKIP_CORRUPT, job.corrupt_advice)
    return said.replace(OR_TWICE, "").replace(OR_READ_ON, "run the job again")


def _sentence(error: Exception) -> str:
    """Return why the job failed."""
    if isinstance(error, PipelineError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow", "py4j"):
            raise error
        return (
            f"{error.name} is not installed: in Vela's folder run `python3 config/run/bootstrap.py pipeline`, or, for"
            " another environment, pip install '.[pipeline]'"
        )
    if isinstance(error, OSError):
        return f"{error.filename or 'the operating system'}: {error.strerror or error}"
    sentence = sentence_of(error)
    if sentence is None:
        traceback.print_exc()
        sentence = f"the job failed: {_reason(error)}; the log has the rest"
    return sentence


def _reason(error: BaseException) -> str:
    # Imported here, because without PySpark this module must still be able to say what is missing.
    from pipeline.jobs.failures import reason_of

    return f"{type(error).__name__}: {reason_of(error)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline", description="Run one job of the pipeline.")
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for job in JOBS.values():
        _add_options(jobs.add_parser(job.name, help=job.summary, description=job.summary), job)
    return parser


def _add_options(parser: argparse.ArgumentParser, job: Job) -> None:
    parser.add_argument("--topic", required=True, help="persistent://tenant/namespace/name, or short")
    parser.add_argument(
        "--url",
        required=not os.environ.get("DATABASE_URL"),
        default=os.environ.get("DATABASE_URL"),
        help="postgresql://user@host:5432/database of Vela. Other users of the machine see it in the list of processes:"
        " a password belongs in the environment variable DATABASE_URL, or in ~/.pgpass",
    )
    parser.add_argument(
        "--service-url", default="pulsar://127.0.0.1:6650", help="the broker, for jobs that publish"
    )
    parser.add_argument("--folder", default=".", help="the folder to which names of files are relative (.)")
    parser.add_argument("--write-id", default="", help="name of this write, to continue it after a failure")
    parser.add_argument(
        "--master",
        default=os.environ.get("VELA_SPARK_MASTER", ""),
        help="Spark's cluster, such as spark://host:7077 (VELA_SPARK_MASTER, else this machine)",
    )
    parser.add_argument(
        "--cores", type=_whole(1), default=2, help="tasks at the same time, each with a connection (2)"
    )
    parser.add_argument(
        "--memory", type=_heap, default="1g", help="memory of Java, and of each executor's Java (1g)"
    )
    parser.add_argument(
        "--read-bytes-per-s",
        type=_whole(0),
        default=0,
        help="the most bytes to read per second; 0: no limit (0)",
    )
    parser.add_argument(
        "--offload-url",
        default="",
        help="where the files of offloaded ledgers are: the broker's VELA_OFFLOAD_URL",
    )
    for option in job.options:
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            dest=option.name,
            required=option.is_required,
            choices=option.choices or None,
            help=option.doc.replace("%", "%%"),
        )


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return number


def _heap(text: str) -> str:
    """Return `text` if Spark accepts it as the size of Java's heap. Java's own error would not name the option."""
    if not (found := re.fullmatch(r"([1-9][0-9]{0,8})([mMgG])", text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512m or 2g")
    if int(found[1]) * (1 if found[2] in "mM" else 1024) < _LEAST_HEAP_MB:
        raise argparse.ArgumentTypeError(f"{text!r} is too little: Spark needs at least {_LEAST_HEAP_MB}m")
    return text


if __name__ == "__main__":
    sys.exit(main())
