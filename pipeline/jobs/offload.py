"""Copy old ledgers of a topic into files. The broker then reads the files instead of the ledgers' rows.

This job only writes files and reads them back. The topic's owner then reads each file too, before it stops using the
ledger's rows. The job works without Spark: a ledger is one sequential copy, and its file must have row groups of a
known size.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pipeline.database import Connection, storing
from pipeline.errors import EntriesMissing, OffloadUnavailable, TopicNotFound, counted
from pipeline.ledger_files.rows import EntryRow
from pipeline.pace import Pace
from pipeline.queries import query

if TYPE_CHECKING:
    from pipeline.jobs.request import JobRequest, Reporter
    from pipeline.ledger_files.storage import FileStorage

__all__ = ["ColdLedger", "Limits", "run"]

_WINDOW_ENTRIES: Final = 5_000
_WINDOW_BYTES: Final = 4 << 20
_TYPES: Final = ("int8", "int4", "int2", "int4", "int8", "int8", "int8", "int8", "bytea")
_HANDOVER_S: Final = 60.0  # the longest wait without progress
_POLL_S: Final = 0.2
_DAY_MINUTES: Final = "1440"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdLedger:
    """A sealed ledger in PostgreSQL, of which no file waits for the broker."""

    topic_id: int
    ledger_id: int
    entries: int
    messages: int
    size_bytes: int
    last_append_ms: int
    bytes_from_here: int  # the size of this ledger and of the later ones of the topic that could be moved too


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The choice of ledgers to offload: those that at least one limit names. None = no limit of that kind."""

    before_ms: int | None  # names ledgers without an entry since then
    keep_bytes: int | None  # names ledgers older than the topic's newest `ColdLedger`s of this total size
    before_ledger: int | None  # names ledgers with a lower id

    def include(self, ledger: ColdLedger) -> bool:
        """Return whether to offload this ledger."""
        return (
            (self.before_ms is not None and ledger.last_append_ms < self.before_ms)
            or (self.keep_bytes is not None and ledger.bytes_from_here > self.keep_bytes)
            or (self.before_ledger is not None and ledger.ledger_id < self.before_ledger)
        )


def run(request: JobRequest, reporter: Reporter, _session: Callable[[], Any]) -> dict[str, Any]:
    """Write each old ledger into a file, then wait until the broker reads from the files. Raises PipelineError.

    The wait ends when the broker makes no progress for 60 s; the broker may take over the other files later.

    Safe to repeat and to kill: a ledger stays where it is until the broker has read its file, and unfinished files are
    deleted.
    """
    if not request.offload_url:
        raise OffloadUnavailable(
            "VELA_OFFLOAD_URL is not set: set it for the broker, the console and the worker"
        )
    storage = _storage(request.offload_url)
    storage.prepare()
    limits = _limits(request)
    names: list[str] = []
    total_bytes = file_bytes = 0
    with storing(request, f"offloading {request.topic}") as connection:
        ledgers = [each for each in _ledgers(connection, request) if limits.include(each)]
        reporter.stage("write files", len(ledgers))
        pace = Pace(request.read_bytes_per_s)
        for number, ledger in enumerate(ledgers, start=1):
            written = _write(connection, storage, ledger, request.write_id, pace)
            if written is not None:
                name, size_bytes = written
                names.append(name)
                total_bytes += ledger.size_bytes
                file_bytes += size_bytes
                connection.execute(query("ask", "offload"))
            reporter.progress(number)
        reporter.stage("hand over to the broker", len(names))
        attached = _hand_over(connection, names, reporter)
    result = {
        "topic": request.topic,
        "ledgers": len(names),
        "attached": attached,
        "bytes": total_bytes,
        "file_bytes": file_bytes,
    }
    if not names:
        return {**result, "words": "the options choose no sealed ledger in PostgreSQL: nothing to offload"}
    words = f"{counted(len(names), 'ledger', 'ledgers')} of {counted(total_bytes, 'byte', 'bytes')}, in"
    words += f" {'a file' if len(names) == 1 else 'files'} of {file_bytes} bytes"
    if attached < len(names):
        words += (
            f"; the broker has taken over {attached} of them so far, and its log says why if it refuses one"
        )
    return {**result, "words": words}


def _storage(url: str) -> FileStorage:
    from pipeline.ledger_files.storage import FileStorage

    return FileStorage(url)


def _limits(request: JobRequest) -> Limits:
    options = request.options
    minutes, kept, before = (options[name] for name in ("older_than_minutes", "keep_bytes", "before_ledger"))
    if not minutes and not kept and not before:
        minutes = _DAY_MINUTES
    now_ms = time.time_ns() // 1_000_000
    return Limits(
        before_ms=now_ms - int(minutes) * 60_000 if minutes else None,
        keep_bytes=int(kept) if kept else None,
        before_ledger=int(before) if before else None,
    )


def _ledgers(connection: Connection, request: JobRequest) -> list[ColdLedger]:
    topic_ids = [row[0] for row in connection.execute(query("topics", "offload"), (request.topic,))]
    if not topic_ids:
        row = connection.execute(query("exists", "offload"), (request.topic,)).fetchone()
        if row is None or not row[0]:
            raise TopicNotFound(f"topic {request.topic} does not exist in this database")
    connection.execute(query("abandon", "offload"), {"topic_ids": topic_ids, "write_id": request.write_id})
    return [
        ColdLedger(
            topic_id=row[0],
            ledger_id=row[1],
            entries=row[2],
            messages=row[3],
            size_bytes=row[4],
            last_append_ms=row[5],
            bytes_from_here=row[6],
        )
        for row in connection.execute(query("ledgers", "offload"), (topic_ids,))
    ]


def _write(
    connection: Connection, storage: FileStorage, ledger: ColdLedger, write_id: str, pace: Pace
) -> tuple[str, int] | None:
    """Write a ledger and read it back. Return the file's name and size; None if the ledger was trimmed or moved."""
    from pipeline.ledger_files.writer import verify, write_ledger

    name = f"{ledger.topic_id}/{ledger.ledger_id}-{uuid.uuid4().hex}.parquet"
    of_file = {"name": name, "topic_id": ledger.topic_id, "ledger_id": ledger.ledger_id}
    connection.execute(query("begin", "offload"), {**of_file, "write_id": write_id})
    try:
        manifest = write_ledger(
            storage,
            name,
            _entries(connection, ledger, pace),
            topic_id=ledger.topic_id,
            ledger_id=ledger.ledger_id,
        )
        stored = (ledger.entries, ledger.messages, ledger.size_bytes)
        if (manifest.entries, manifest.messages, manifest.size_bytes) != stored:
            raise EntriesMissing(
                f"ledger {ledger.ledger_id} has {counted(ledger.entries, 'entry', 'entries')}, but"
                f" {manifest.entries} came when it was read: check the database for lost rows"
            )
        if verify(storage, name) != manifest:
            raise OffloadUnavailable(f"the file {name} was changed while it was written")
        size_bytes = storage.size_bytes(name)
        parameters = {**asdict(manifest), "name": name, "file_bytes": size_bytes}
        if connection.execute(query("written", "offload"), parameters).fetchone() is None:
            storage.delete(name)  # if the file's row is gone, no other process would delete the file
            raise OffloadUnavailable(f"the file {name} was given up by another run: run the job again")
    except EntriesMissing:
        connection.execute(query("give_up", "offload"), (name,))
        row = connection.execute(query("is_in_rows", "offload"), (ledger.ledger_id,)).fetchone()
        if row is not None and row[0]:
            raise
        return None  # trimmed or moved while it was read
    except BaseException:
        connection.execute(query("give_up", "offload"), (name,))
        raise
    return name, size_bytes


def _entries(connection: Connection, ledger: ColdLedger, pace: Pace) -> Iterator[EntryRow]:
    """Yield the stored entries of a ledger, one window of bounded size at a time. Stop at a window without entries."""
    wanted, through_bytes = 0, 0
    while wanted < ledger.entries:
        window = {
            "ledger_id": ledger.ledger_id,
            "first": wanted,
            "last": min(ledger.entries, wanted + _WINDOW_ENTRIES) - 1,
            "limit_bytes": through_bytes + _WINDOW_BYTES,
        }
        with connection.cursor().copy(query("entries", "offload"), window) as copy:
            copy.set_types(_TYPES)
            rows = [EntryRow(*row) for row in copy.rows()]
        if not rows:
            return
        yield from rows
        wanted, through_bytes = rows[-1].entry_id + 1, rows[-1].cumulative_bytes
        if pause_s := pace.pause_s(sum(len(row.data) for row in rows)):
            time.sleep(pause_s)


def _hand_over(connection: Connection, names: Sequence[str], reporter: Reporter) -> int:
    """Wait until the broker has taken over or refused each file, or makes no progress for 60 s.

    Return how many files it took over.
    """
    attached = 0
    until_s = time.monotonic() + _HANDOVER_S
    while names and time.monotonic() < until_s:
        row = connection.execute(query("attached", "offload"), (list(names),)).fetchone()
        done, waiting = row if row is not None else (0, 0)
        if done != attached:
            attached, until_s = done, time.monotonic() + _HANDOVER_S
            reporter.progress(done)
        if not waiting:
            break
        time.sleep(_POLL_S)
    return attached
