"""What goes wrong in the pipeline, each with one sentence that names what to change."""

from __future__ import annotations

import re

__all__ = [
    "DatabaseUnavailable",
    "EntriesMissing",
    "EntryUnreadable",
    "InvalidOption",
    "JavaMissing",
    "PipelineError",
    "TopicNotFound",
    "sentence_of",
]


class PipelineError(Exception):
    """Root of the tree; its text is meant for the person who started the job."""


class InvalidOption(PipelineError):
    """An option of the data source is missing, unknown or has an impossible value."""


class TopicNotFound(PipelineError):
    """The broker's database knows no topic of that name."""


class DatabaseUnavailable(PipelineError):
    """PostgreSQL cannot be reached, refuses the login, is not Vela's, or did not answer in time."""


class EntriesMissing(PipelineError):
    """An entry that was there at planning cannot be read: never passed over in silence (design 6)."""


class EntryUnreadable(PipelineError):
    """One entry cannot be decoded: damaged, encrypted or a chunk."""


class JavaMissing(PipelineError):
    """No Java that Spark can run on."""


_SAID = re.compile(r"^pipeline\.errors\.\w+: (?P<sentence>.+)$", re.MULTILINE)


def sentence_of(error: BaseException) -> str | None:
    """The sentence of a PipelineError, also where Spark brought it from a worker as the text of a traceback."""
    if isinstance(error, PipelineError):
        return str(error)
    found = _SAID.search(str(error))
    return found["sentence"].strip() if found else None
