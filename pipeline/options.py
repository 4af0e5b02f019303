"""The options of `spark.read.format("vela")`, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pipeline.errors import InvalidOption
from vela.wire.errors import InvalidMessageId, InvalidTopicName
from vela.wire.message_id import MessageId
from vela.wire.topic_name import TopicName

__all__ = ["ReadOptions", "full_topic_name"]

MAX_BATCH_ROWS: Final = 10_000

_NAMES: Final = (
    "topic",
    "url",
    "partitions",
    "onCorrupt",
    "endingOffsets",
    "batchRows",
    "maxMessageBytes",
    "statementTimeoutMs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read. They are pickled to the executors, including the connection URL."""

    topic: str  # full name: persistent://tenant/namespace/name
    url: str  # of the broker's PostgreSQL, as libpq takes it
    partitions: int  # Spark partitions, and so connections at the same time
    skip_corrupt: bool  # log entries that cannot be decoded and leave them out, instead of failing the job
    ending: tuple[
        tuple[str, MessageId], ...
    ]  # (topic, last entry to read); other topics end at their last entry when the read is planned
    batch_rows: int  # the most rows of a RecordBatch
    max_message_bytes: int  # the largest payload of an entry, uncompressed
    statement_timeout_ms: int  # of one query

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read Spark's options, whose names ignore case. Raises InvalidOption with the option's name."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - {name.lower() for name in _NAMES})
        if unknown:
            raise InvalidOption(f"unknown option {unknown[0]!r}: the options are {', '.join(_NAMES)}")
        return cls(
            topic=full_topic_name(_required(given, "topic", "persistent://public/default/orders")),
            url=_url(_required(given, "url", "postgresql://user@host:5432/database")),
            partitions=_integer(given, "partitions", 2, least=1, most=64),
            skip_corrupt=_choice(given, "onCorrupt", ("fail", "skip")) == "skip",
            ending=_ending(given.get("endingoffsets", "latest")),
            batch_rows=_integer(given, "batchRows", MAX_BATCH_ROWS, least=1, most=MAX_BATCH_ROWS),
            max_message_bytes=_integer(given, "maxMessageBytes", 64 << 20, least=1024, most=256 << 20),
            statement_timeout_ms=_integer(given, "statementTimeoutMs", 30_000, least=100, most=600_000),
        )


def full_topic_name(text: str) -> str:
    """Return the full name of `orders` or `tenant/namespace/orders`. Raises InvalidOption if it cannot be stored."""
    try:
        name = TopicName.parse(text.strip())
    except InvalidTopicName as error:
        raise InvalidOption(f"option topic: {error}") from None
    if name.domain == "non-persistent":
        raise InvalidOption(f"option topic: {text!r} is non-persistent, so none of its messages are stored")
    return name.full


def _required(given: Mapping[str, str], name: str, example: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise InvalidOption(f'option {name} is missing: set it, for example .option("{name}", "{example}")')
    return value


def _url(text: str) -> str:
    try:
        conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        # libpq's own text quotes the URL, and with it the password.
        raise InvalidOption(
            "option url is not a PostgreSQL URL of the form postgresql://user@host:5432/database"
        ) from None
    return text


def _integer(given: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = given.get(name.lower(), str(default)).strip()
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise InvalidOption(f"option {name} is {text!r}: it must be a whole number from {least} to {most}")
    return int(text)


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = given.get(name.lower(), choices[0]).strip().lower()
    if text not in choices:
        raise InvalidOption(f"option {name} is {text!r}: it must be {' or '.join(choices)}")
    return text


def _ending(text: str) -> tuple[tuple[str, MessageId], ...]:
    if text.strip().lower() == "latest":
        return ()
    try:
        ending = json.loads(text)
        if not isinstance(ending, dict):
            raise TypeError
        return tuple((full_topic_name(topic), MessageId.parse(end)) for topic, end in ending.items())
    except (ValueError, TypeError, AttributeError, InvalidMessageId):
        raise InvalidOption(
            f'option endingOffsets is {text!r}: it must be latest or JSON like {{"topic": "ledger:entry"}}'
        ) from None
