"""All jobs, their options, and how options are checked. Imports neither Spark nor the code of any job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.errors import InvalidOption
from pipeline.option_values import OptionValues, full_topic_name

__all__ = ["JOBS", "Job", "Option", "find_job"]

Kind = Literal["text", "number", "switch", "time", "topic", "file"]
_MOST_TEXT: Final = 4096
_MOST_FILE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a job. Values are text; `checked` validates them by `kind`."""

    name: str
    doc: str
    kind: Kind = "text"
    default: str = ""
    is_required: bool = False
    choices: tuple[str, ...] = ()  # the first is the default
    least: int = 0  # the least value of a number
    most: int = 0
    is_new_file: bool = False  # the job fails if a file or folder of this name exists

    @property
    def listed(self) -> tuple[str, ...]:
        """Return every value that the option takes, the default first; empty if they cannot be listed."""
        if self.kind != "switch":
            return self.choices
        return ("true", "false") if self.default == "true" else ("false", "true")

    def checked(self, given: Mapping[str, str]) -> str:
        """Return the value that a job uses. Raises InvalidOption, which names the option."""
        text = given.get(self.name, "").strip() or self.default
        values = OptionValues({self.name: text}, [self.name])
        if not text:
            if self.is_required:
                raise InvalidOption(f"option {self.name} is missing: {self.doc}")
            return self.choices[0] if self.choices else ""
        if len(text) > _MOST_TEXT or "\0" in text:
            raise InvalidOption(
                f"option {self.name} is too long or contains a NUL character: at most {_MOST_TEXT:,} characters"
            )
        if self.choices:
            return values.choice(self.name, self.choices)
        match self.kind:
            case "number":
                return str(values.integer(self.name, 0, least=self.least, most=self.most))
            case "switch":
                return "true" if values.boolean(self.name, default=self.default == "true") else "false"
            case "time":
                values.time_ms(self.name)
            case "topic":
                return full_topic_name(text, f"option {self.name}")
            case "file":
                _check_file(self.name, text)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kind of job. Each run works on one topic."""

    name: str
    summary: str  # one sentence for users
    options: tuple[Option, ...]
    module: str  # in pipeline.jobs, with the function `run`
    one_at_a_time: tuple[str, ...] = ()  # two runs on one topic collide only if these options are also equal
    schedule_note: str = ""  # a note for the operator who schedules this job
    # What to do if an entry cannot be decoded. Empty if the job leaves out such entries, or decodes no entries.
    corrupt_advice: str = ""

    def checked(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return every option with its value. Raises InvalidOption for a wrong, missing or unknown one."""
        names = [option.name for option in self.options]
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise InvalidOption(f"unknown option {unknown[0]!r}: {self.name} takes {', '.join(names)}")
        return {option.name: option.checked(given) for option in self.options}

    def check_repeatable(self, options: Mapping[str, str]) -> None:
        """Raise InvalidOption if a schedule's first run would make all others fail."""
        for option in self.options:
            if option.is_new_file and "{time}" not in options[option.name]:
                raise InvalidOption(
                    f"option {option.name} is {options[option.name]!r}: each run of a schedule needs a new name, so put"
                    f" {{time}} in it, such as {options[option.name]}/{{time}}"
                )

    def subject(self, topic: str, options: Mapping[str, str]) -> str:
        """Return a run's subject: its topic and `one_at_a_time`. Runs of a job with the same subject never overlap."""
        return " → ".join([topic, *(options[name] for name in self.one_at_a_time if options[name])])


def find_job(name: str) -> Job:
    """Return the job of that name. If there is none, raises InvalidOption, which names all jobs."""
    job = JOBS.get(name)
    if job is None:
        raise InvalidOption(f"there is no job {name!r}: the jobs are {', '.join(JOBS)}")
    return job


def _check_file(name: str, text: str) -> None:
    """Raise InvalidOption if the name is too long or reserved, or could lead to a file outside the job's folder."""
    parts = text.split("/")
    if len(text) > _MOST_FILE or not all(text.isprintable() and part.strip(". ") for part in parts):
        raise InvalidOption(
            f"option {name} is {text!r}: write a name of at most {_MOST_FILE} characters, such as orders or"
            " 2026/orders, without .. and without / at its beginning or end"
        )
    if any(part.startswith(".") for part in parts):
        raise InvalidOption(f"option {name} is {text!r}: names that begin with a dot are reserved")


_FROM: Final = Option(
    name="starting_time",
    doc="only messages stored at this time or later, such as 2026-01-31T12:00:00Z; empty: from the earliest",
    kind="time",
)
_UNTIL: Final = Option(
    name="ending_time",
    doc="only messages stored before this time; empty: up to the last one now",
    kind="time",
)
_RATE: Final = Option(
    name="messages_per_s",
    doc="the most messages to publish per second",
    kind="number",
    default="1000",
    least=1,
    most=1_000_000,
)
_FORMATS: Final = ("parquet", "ndjson", "csv")

_ALL: Final = (
    Job(
        name="export",
        summary="Write the stored messages of a topic to files.",
        module="export",
        corrupt_advice="to leave such entries out, set option on_corrupt to skip",
        one_at_a_time=("to",),
        options=(
            Option(
                name="to",
                doc="name of the new folder for the files; {time} is replaced by the time when the job starts",
                kind="file",
                is_required=True,
                is_new_file=True,
            ),
            Option(name="format", doc="format of the files", choices=_FORMATS),
            _FROM,
            _UNTIL,
            Option(
                name="only_new",
                doc="true: only messages that no earlier export with the same `to` has written; `to` needs {time}",
                kind="switch",
                default="false",
            ),
            Option(
                name="on_corrupt",
                doc="what to do about entries that cannot be decoded",
                choices=("fail", "skip"),
            ),
            Option(
                name="on_lost",
                doc="with only_new, what to do if retention has trimmed messages that no export has written",
                choices=("fail", "skip"),
            ),
        ),
    ),
    Job(
        name="import",
        summary="Publish the messages in files, each once, to a topic with deduplication.",
        module="import_files",
        one_at_a_time=("from",),
        options=(
            Option(
                name="from",
                doc="name of a folder that an export wrote, or of one file",
                kind="file",
                is_required=True,
            ),
            Option(
                name="format", doc="format of the files; auto: by their names", choices=("auto", *_FORMATS)
            ),
            Option(
                name="import_id",
                doc="name of this import; to publish the same files again, choose a new one",
            ),
            _RATE,
        ),
    ),
    Job(
        name="replay",
        summary="Republish stored messages that match an SQL condition, to any topic.",
        module="replay",
        corrupt_advice="leave such entries out with starting_time and ending_time",
        one_at_a_time=("to",),
        schedule_note="with preview = false, each run also publishes again what earlier runs published",
        options=(
            Option(name="to", doc="topic that gets the messages", kind="topic", is_required=True),
            Option(
                name="where",
                doc="SQL condition, such as key = 'a' and value:pieces::int > 3; empty: every message",
            ),
            _FROM,
            _UNTIL,
            Option(
                name="limit",
                doc="the most messages that may match; if more do, none is published",
                kind="number",
                default="10000",
                least=1,
                most=10_000_000,
            ),
            _RATE,
            Option(
                name="max_replays",
                doc="leave out messages that were already replayed this many times or more",
                kind="number",
                default="1",
                least=1,
                most=100,
            ),
            Option(
                name="preview",
                doc="true: count the messages, show some of them and publish none",
                kind="switch",
                default="true",
            ),
        ),
    ),
    Job(
        name="insights",
        summary="Compute sizes, delays, keys and dead letters of each hour, for the topic's page.",
        module="insights",
        options=(
            Option(
                name="hours",
                doc="number of past hours to compute, besides the current hour",
                kind="number",
                default="2",
                least=0,
                most=2_160,
            ),
        ),
    ),
    Job(
        name="compact",
        summary="Compact a topic that has too many keys for the broker's memory.",
        module="compact",
        corrupt_advice="compact this topic with `vela compact`",
        options=(),
    ),
    Job(
        name="offload",
        summary="Move old messages of a topic out of PostgreSQL, into files that the broker reads.",
        module="offload",
        options=(
            Option(
                name="older_than_minutes",
                doc="move ledgers whose last message is older than this; empty: a day, or move none by age if another"
                " option is set",
                kind="number",
                least=0,
                most=5_256_000,
            ),
            Option(
                name="keep_bytes",
                doc="keep this many bytes of sealed ledgers, and move the older ones; empty: move none by size",
                kind="number",
                least=0,
                most=1 << 62,
            ),
            Option(
                name="before_ledger",
                doc="move the ledgers before the one with this id; empty: move none by id",
                kind="number",
                least=0,
                most=1 << 62,
            ),
        ),
    ),
)

JOBS: Final = {job.name: job for job in _ALL}
