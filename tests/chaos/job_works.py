"""What each job does while `tests.chaos.jobs` kills it, and what must be true after every attempt."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psycopg

import vela as client_of_vela
from pipeline.checksum import Checksum
from tests.chaos.exported import checksum_of_files
from tests.chaos.messages import checksum_of, publish, stored
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

__all__ = ["FORMATS", "LEDGER_ENTRIES", "WORKS", "Job", "Situation", "Work"]

FORMATS: Final = ("parquet", "ndjson", "csv")
LEDGER_ENTRIES: Final = 500
_PUBLISHING_S: Final = 4  # how long a job should publish, so that kills find it at work
_LEDGERS: Final = 8  # ledgers of each topic that is offloaded
_SWEPT_S: Final = 60.0
_OF_HOURS: Final = (
    "SELECT coalesce(sum(h.messages), 0), coalesce(sum(h.size_bytes), 0) FROM vela_insight_hour h"
    " JOIN vela_topic t ON t.id = h.topic_id WHERE t.name = %s"
)
_SURVEYED: Final = (
    "SELECT (SELECT count(*) FROM vela_compaction_key)"
    " + (SELECT count(*) FROM vela_compaction_survey WHERE state IN ('reading', 'ready'))"
)
_FILES: Final = (
    "SELECT f.name, f.state, l.file_name FROM (SELECT * FROM vela_ledger WHERE state <> 'open') l"
    " FULL JOIN vela_ledger_file f ON f.ledger_id = l.id AND f.name = l.file_name"
    " JOIN vela_topic t ON t.id = coalesce(f.topic_id, l.topic_id) WHERE t.name = %s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A running Vela with a topic, and the folder of the jobs' files."""

    vela: VelaProcess
    client: client_of_vela.Client
    database: psycopg.Connection[tuple[object, ...]]  # commits every statement
    source: str
    published: Checksum  # in `source`
    size_bytes: int  # of all payloads in `source`
    folder: Path
    format: str
    exported: str  # the folder of a successful export of `source`


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job with its topic and its options."""

    name: str
    topic: str
    options: Mapping[str, str]


class Work(Protocol):
    """What one job does again and again, and how to check that it was done."""

    def job(self) -> Job:
        """Return the next job. None of its work is done yet."""

    def check(self, job: Job, *, is_done: bool) -> None:
        """Fail if an attempt left anything wrong, or if it succeeded and anything is missing."""


class _Export:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._numbers = itertools.count()

    def job(self) -> Job:
        number = next(self._numbers)
        options = {"to": f"copy-{number}", "format": FORMATS[number % len(FORMATS)]}
        return Job(name="export", topic=self._situation.source, options=options)

    def check(self, job: Job, *, is_done: bool) -> None:
        """Check that the export's folder is complete if it exists, and that a done job has left no temporary files."""
        folder = self._situation.folder / job.options["to"]
        assert folder.exists() or not is_done, f"there is no {folder}"
        if folder.exists():
            found = checksum_of_files(folder, job.options["format"])
            assert found == self._situation.published, f"{folder} has {found.messages} messages, {found}"
        if is_done:
            left = [path.name for path in self._situation.folder.iterdir() if path.name.startswith(".")]
            assert left == [], f"files of killed exports are left: {left}"


class _Publishing:
    """Import or replay into a new topic."""

    def __init__(self, name: str, situation: Situation) -> None:
        self._name = name
        self._situation = situation
        self._numbers = itertools.count()

    def job(self) -> Job:
        situation = self._situation
        target = _new_topic(situation, f"{self._name}-{next(self._numbers)}")
        rate = {"messages_per_s": str(situation.published.messages // _PUBLISHING_S)}
        if self._name == "import":
            return Job(name="import", topic=target, options={**rate, "from": situation.exported})
        options = {**rate, "to": target, "limit": "10000000", "preview": "false"}
        return Job(name="replay", topic=situation.source, options=options)

    def check(self, job: Job, *, is_done: bool) -> None:
        """Check that there are at most the messages that were published, and after a done job, exactly these."""
        target = job.options.get("to", job.topic)
        found, published = checksum_of(self._situation.client, target), self._situation.published
        assert found.messages <= published.messages
        assert found == published or not is_done, f"published {published}, and {target} has {found}"


class _Insights:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    def job(self) -> Job:
        self._situation.database.execute("DELETE FROM vela_insight_hour")
        return Job(name="insights", topic=self._situation.source, options={"hours": "100"})

    def check(self, job: Job, *, is_done: bool) -> None:
        """Check that the stored hours count no message twice, and after a done job, that all hours are stored."""
        row = self._situation.database.execute(_OF_HOURS, (job.topic,)).fetchone()
        whole = (self._situation.published.messages, self._situation.size_bytes)
        assert row is not None
        assert row == whole or (not is_done and int(str(row[0])) < whole[0]), (row, whole)


class _Compact:
    """Compacts a topic that grows with every job."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._topic = _new_topic(situation, "compacted")
        self._grown = situation.published.messages // 5
        self._latest: dict[str, bytes] = {}
        self._published = 0

    def job(self) -> Job:
        numbers = range(self._published, self._published + self._grown)
        self._published = numbers.stop
        self._latest |= publish(self._situation.client, self._topic, numbers)
        return Job(name="compact", topic=self._topic, options={})

    def check(self, job: Job, *, is_done: bool) -> None:
        """Check that readers get each key's latest value.

        After a done job, readers get nothing else, and no survey is left.
        """
        read = stored(self._situation.client, self._topic, is_compacted=True)
        assert {str(each.partition_key()): each.data() for each in read} == self._latest
        if is_done:
            assert len(read) == len(self._latest), f"{len(read)} messages of {len(self._latest)} keys"
            wait_until(self._has_forgotten, "the end of all surveys", timeout_s=_SWEPT_S, every_s=0.2)

    def _has_forgotten(self) -> bool:
        self._situation.database.execute("SELECT pg_notify('vela_policies', '')")
        return self._situation.database.execute(_SURVEYED).fetchone() == (0,)


class _Offload:
    """Offloads a new topic each time."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._numbers = itertools.count()
        self._sent: list[bytes] = []

    def job(self) -> Job:
        topic = _new_topic(self._situation, f"cold-{next(self._numbers)}")
        self._sent = [
            secrets.token_bytes(secrets.randbelow(2_000) + 8) for _ in range(_LEDGERS * LEDGER_ENTRIES)
        ]
        producer = self._situation.client.create_producer(topic, block_if_queue_full=True)
        for value in self._sent:
            producer.send_async(value, None)
        producer.flush()
        producer.close()
        return Job(name="offload", topic=topic, options={"keep_bytes": "0"})

    def check(self, job: Job, *, is_done: bool) -> None:
        """Check that all messages can be read in order, and after a done job, that each file belongs to a ledger."""
        if is_done:
            wait_until(
                lambda: self._has_only_files_of_ledgers(job.topic),
                "the files",
                timeout_s=_SWEPT_S,
                every_s=0.5,
            )
        assert [each.data() for each in stored(self._situation.client, job.topic)] == self._sent

    def _has_only_files_of_ledgers(self, topic: str) -> bool:
        database, folder = self._situation.database, Path(self._situation.vela.data_dir) / "offload"
        database.execute("SELECT pg_notify('vela_lifetime', '')")
        rows = database.execute(_FILES, (topic,)).fetchall()
        known = database.execute("SELECT name FROM vela_ledger_file").fetchall()
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        return (
            len(rows) > 1
            and all(state == "attached" and name == of_ledger for name, state, of_ledger in rows)
            and found == {name for (name,) in known}
        )


WORKS: Final[Mapping[str, Callable[[Situation], Work]]] = {
    "offload": _Offload,
    "export": _Export,
    "import": lambda situation: _Publishing("import", situation),
    "replay": lambda situation: _Publishing("replay", situation),
    "insights": _Insights,
    "compact": _Compact,
}


def _new_topic(situation: Situation, name: str) -> str:
    topic = f"{situation.source}-{name}"
    situation.client.create_producer(topic).close()
    return topic
