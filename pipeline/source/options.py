"""The options of `spark.read` and `spark.readStream` with format vela, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.errors import InvalidOption
from pipeline.option_values import OptionValues, full_topic_name
from pipeline.source.offsets import AskedOffsets
from vela.wire.topic_name import TopicName

__all__ = ["Limits", "ReadOptions", "TopicsPattern"]

MAX_BATCH_ROWS: Final = 10_000
_BIGINT: Final = (1 << 63) - 1
_NAMES: Final = (
    "topic",
    "topics",
    "topicsPattern",
    "url",
    "startingOffsets",
    "startingTime",
    "predefinedSubscription",
    "endingOffsets",
    "endingTime",
    "failOnDataLoss",
    "onCorrupt",
    "pushFilters",
    "partitions",
    "partitionBytes",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "maxEntriesPerTrigger",
    "batchRows",
    "maxMessageBytes",
    "readBytesPerSecond",
    "statementTimeoutMs",
    "offloadUrl",
)
_STARTS: Final = ("startingOffsets", "startingTime", "predefinedSubscription")
_ENDS: Final = ("endingOffsets", "endingTime")
_LIMITS: Final = ("maxRowsPerTrigger", "maxBytesPerTrigger", "maxEntriesPerTrigger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one micro-batch; None = no limit of that kind."""

    rows: int | None
    size_bytes: int | None
    entries: int | None

    @property
    def is_set(self) -> bool:
        """Return whether there is any limit."""
        return (self.rows, self.size_bytes, self.entries) != (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPattern:
    """A regular expression over the names of one namespace's topics; partitions count as their topic."""

    namespace: str  # tenant/namespace
    name: str  # the regular expression

    @classmethod
    def parse(cls, text: str) -> TopicsPattern:
        """Read `orders-.*` or `persistent://tenant/namespace/orders-.*`. Raises InvalidOption."""
        parts = text.removeprefix("persistent://").split("/", 2)
        if len(parts) == 1:
            parts = ["public", "default", text]
        if len(parts) != 3 or not all(parts):
            raise InvalidOption(
                f"option topicsPattern is {text!r}: write name or tenant/namespace/name, with a regular expression for"
                " the name alone"
            )
        try:
            re.compile(parts[2])
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidOption(
                f"option topicsPattern is {text[:200]!r}, not a regular expression: {error}"
            ) from None
        return cls(namespace=f"{parts[0]}/{parts[1]}", name=parts[2])

    @property
    def prefix(self) -> str:
        """The beginning of the full name of every topic in the namespace."""
        return f"persistent://{self.namespace}/"

    def matches(self, full_name: str) -> bool:
        """Return whether the topic is in the namespace and its whole local name matches."""
        return full_name.startswith(self.prefix) and bool(
            re.fullmatch(self.name, full_name.removeprefix(self.prefix))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read. Spark pickles them, with the connection URL, and sends them to the executors."""

    topics: tuple[str, ...]  # full names: persistent://tenant/namespace/name; () if there is a pattern
    pattern: TopicsPattern | None
    url: str  # of the broker's PostgreSQL, as libpq takes it
    starting: AskedOffsets | None
    starting_time_ms: int | None
    subscription: str | None  # start at its cursor
    ending: AskedOffsets | None
    ending_time_ms: int | None
    fail_on_data_loss: bool
    skip_corrupt: bool  # log entries that cannot be decoded and leave them out, instead of failing the job
    push_filters: bool  # let Spark push filters down; batch reads only
    partitions: int  # the most Spark tasks of a read or micro-batch, each with a connection
    partition_bytes: int  # up to this size, a read has one task: starting a second is not worthwhile
    limits: Limits
    batch_rows: int  # the most rows of a RecordBatch
    max_message_bytes: int  # the largest payload of an entry, uncompressed
    read_bytes_per_s: int  # the most that each task reads, as stored; 0 = no limit
    statement_timeout_ms: int  # of one query
    offload_url: str  # where the files of offloaded ledgers are; "" = not known
    given: frozenset[str]  # names of the options that were given

    @property
    def label(self) -> str:
        """The topics that are read, in words, for errors and log lines."""
        if self.pattern is not None:
            return f"topics like {self.pattern.prefix}{self.pattern.name}"
        return self.topics[0] if len(self.topics) == 1 else f"{len(self.topics)} topics"

    def names(self, topic: str) -> bool:
        """Return whether a topic (its full name, or a partition's) belongs to the read."""
        whole = TopicName.parse(topic).base
        if self.pattern is not None:
            return self.pattern.matches(whole)
        return topic in self.topics or whole in self.topics

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read Spark's options. The case of names does not matter. Raises InvalidOption, which names the option."""
        values = OptionValues(options, _NAMES)
        topics, pattern = _topics(values)
        _at_most_one(values, _STARTS)
        _at_most_one(values, _ENDS)
        starting = ending = None
        if values.has("startingOffsets"):
            starting = AskedOffsets.parse(
                "startingOffsets", values.text("startingOffsets"), others="earliest"
            )
        if values.has("endingOffsets"):
            ending = AskedOffsets.parse("endingOffsets", values.text("endingOffsets"), others="latest")
        starting_time_ms, ending_time_ms = values.time_ms("startingTime"), values.time_ms("endingTime")
        if starting_time_ms is not None and ending_time_ms is not None and starting_time_ms > ending_time_ms:
            raise InvalidOption(
                "the starting time is after the ending time, so no message can be between them: exchange them"
            )
        return cls(
            topics=topics,
            pattern=pattern,
            url=values.database_url("url"),
            starting=starting,
            starting_time_ms=starting_time_ms,
            subscription=_subscription(values),
            ending=ending,
            ending_time_ms=ending_time_ms,
            fail_on_data_loss=values.boolean("failOnDataLoss", default=True),
            skip_corrupt=values.choice("onCorrupt", ("fail", "skip")) == "skip",
            push_filters=values.boolean("pushFilters", default=False),
            partitions=values.integer("partitions", 16, least=1, most=1000),
            partition_bytes=values.integer("partitionBytes", 16 << 20, least=1, most=1 << 40),
            limits=Limits(
                rows=values.optional_integer("maxRowsPerTrigger", least=1, most=_BIGINT),
                size_bytes=values.optional_integer("maxBytesPerTrigger", least=1, most=_BIGINT),
                entries=values.optional_integer("maxEntriesPerTrigger", least=1, most=_BIGINT),
            ),
            batch_rows=values.integer("batchRows", MAX_BATCH_ROWS, least=1, most=MAX_BATCH_ROWS),
            max_message_bytes=values.integer("maxMessageBytes", 64 << 20, least=1024, most=256 << 20),
            read_bytes_per_s=values.integer("readBytesPerSecond", 0, least=0, most=_BIGINT),
            statement_timeout_ms=values.integer("statementTimeoutMs", 30_000, least=100, most=600_000),
            offload_url=values.text("offloadUrl"),
            given=frozenset(name for name in _NAMES if values.has(name)),
        )

    def require_batch(self) -> None:
        """Raise InvalidOption for options that only a stream has."""
        for name in _LIMITS:
            if name in self.given:
                raise InvalidOption(f"option {name} is for streams: remove it, or use spark.readStream")

    def require_stream(self) -> None:
        """Raise InvalidOption for options that only a batch read has."""
        if "pushFilters" in self.given:
            raise InvalidOption(
                "option pushFilters is for batch reads: remove it; Spark filters what a stream reads"
            )
        for name in _ENDS:
            if name in self.given:
                raise InvalidOption(
                    f"option {name} is for batch reads: remove it; trigger(availableNow=True) reads to the current end"
                )


def _topics(values: OptionValues) -> tuple[tuple[str, ...], TopicsPattern | None]:
    given = [name for name in ("topic", "topics", "topicsPattern") if values.text(name)]
    if not given:
        values.required("topic", "persistent://public/default/orders")
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]} and {given[1]} exclude each other: set one of them")
    text = values.text(given[0])
    if given == ["topicsPattern"]:
        return (), TopicsPattern.parse(text)
    names = [text] if given == ["topic"] else [name for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidOption(
            f"option topics is {text!r}: it must be names of topics, with commas between them"
        )
    return tuple(dict.fromkeys(full_topic_name(name, f"option {given[0]}") for name in names)), None


def _subscription(values: OptionValues) -> str | None:
    """Return the subscription's name. An empty name, perhaps from an unset variable, must not read everything."""
    if not values.has("predefinedSubscription"):
        return None
    return values.required("predefinedSubscription", "billing")


def _at_most_one(values: OptionValues, names: tuple[str, ...]) -> None:
    given = [name for name in names if values.has(name)]
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]} and {given[1]} exclude each other: set one of them")
