"""The pipeline's errors. The text of each is one sentence that says what to change."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "OR_READ_ON",
    "OR_TWICE",
    "SKIP_CORRUPT",
    "BrokerUnavailable",
    "CheckpointDamaged",
    "DataLost",
    "DatabaseUnavailable",
    "DeduplicationOff",
    "EntriesMissing",
    "EntryUnreadable",
    "InvalidOption",
    "InvalidRow",
    "JavaMissing",
    "LedgerFileDamaged",
    "LedgerFileMissing",
    "OffloadUnavailable",
    "PipelineError",
    "SchemaUnusable",
    "SubscriptionNotFound",
    "TopicNotFound",
    "counted",
    "sentence_of",
]


OR_TWICE: Final = ", or set option exactlyOnce to false"
"""The sink's advice about a topic that does not deduplicate. Jobs have no such option."""

OR_READ_ON: Final = "set failOnDataLoss to false to continue without these messages, or choose other offsets"
"""The data source's advice about messages that were trimmed. Jobs have no such options."""

SKIP_CORRUPT: Final = "to leave such entries out, set option onCorrupt to skip"
"""The data source's advice about an entry that cannot be decoded. A job has its own, because its options differ."""


class PipelineError(Exception):
    """The base of all errors here. Its text is for the user who started the job."""


class InvalidOption(PipelineError):
    """An option of the data source is missing, unknown or has an impossible value."""


class TopicNotFound(PipelineError):
    """The broker's database has no topic of that name."""


class SubscriptionNotFound(PipelineError):
    """A topic that is read has no subscription of that name."""


class DatabaseUnavailable(PipelineError):
    """PostgreSQL cannot be reached, refuses the login or did not answer in time, or the database is not Vela's."""


class EntriesMissing(PipelineError):
    """An entry that existed when the read was planned cannot be read. It is never skipped silently."""


class SchemaUnusable(PipelineError):
    """A topic has no schema with which Spark can read payloads."""


class CheckpointDamaged(PipelineError):
    """A stream cannot continue from its checkpoint."""


class DataLost(PipelineError):
    """Messages after an offset were trimmed, or the topic is not the one that was read before."""

    def __init__(self, problem: str, advice: str = "") -> None:
        """`advice` is separate from `problem`, because a job replaces it: its options differ from the data source's."""
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem = problem


class EntryUnreadable(PipelineError):
    """An entry cannot be decoded: it is damaged, encrypted or a chunk."""


class BrokerUnavailable(PipelineError):
    """The sink cannot write to a topic: the broker is unavailable, or refuses the producer or a message."""


class DeduplicationOff(PipelineError):
    """A topic does not deduplicate, so the sink cannot write each row exactly once."""


class InvalidRow(PipelineError):
    """The sink cannot turn a row into a message."""


class JavaMissing(PipelineError):
    """There is no Java that Spark can use."""


class OffloadUnavailable(PipelineError):
    """The storage of offloaded ledgers cannot be used: it is not set, cannot be reached, or pyarrow is missing."""


class LedgerFileMissing(OffloadUnavailable):
    """A file of an offloaded ledger does not exist. Retention may have deleted it a moment ago."""


class LedgerFileDamaged(OffloadUnavailable):
    """A file of an offloaded ledger does not have the content with which it was written."""


def counted(number: int, one: str, many: str) -> str:
    """Return the number with `one` or `many` after it: "1 message is", "2 messages are"."""
    return f"{number} {one if number == 1 else many}"


_DISK_FULL: Final = "No space left on device"  # in Linux's words, which Java and Python pass on
_NO_PYTHON: Final = "Python worker failed to connect back"  # Spark's words after a wait of ten seconds
_PYTHON_ENDED: Final = "from pyspark.daemon's stdout and terminated with code: 137"  # 128 + SIGKILL
_SAID: Final = re.compile(r"^pipeline\.errors\.\w+: (?P<sentence>.+)$", re.MULTILINE)


def sentence_of(error: BaseException) -> str | None:
    """Return the sentence of a PipelineError, even if Spark passes it on as the text of a worker's traceback.

    A full disk, and a Python that did not start or was killed, have sentences too, because Spark's own text names only
    the task. Return None for every other error.
    """
    if isinstance(error, PipelineError):
        return str(error)
    text = str(error)
    if found := _SAID.search(text):
        return found["sentence"].strip()
    if _DISK_FULL in text:
        return (
            "a disk is full: make room where the job writes its files, and where Spark writes temporary ones (TMPDIR),"
            " then run the job again"
        )
    if _NO_PYTHON in text:
        return (
            "Spark's Python did not start within ten seconds: the machine is too busy, so run the job again later, or"
            " lower VELA_PIPELINE_NICE, which gives the job a higher priority"
        )
    if _PYTHON_ENDED in text:
        return (
            "Spark's Python was ended by SIGKILL while it started: perhaps the system had too little memory; lower"
            " VELA_PIPELINE_MEMORY_MB, or give the machine more"
        )
    return None
