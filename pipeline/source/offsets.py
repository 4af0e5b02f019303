"""Offsets: how far a topic is read, in options, in checkpoints and in a query's progress."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.errors import InvalidOption
from pipeline.option_values import full_topic_name

__all__ = [
    "BEGINNING",
    "OTHERS",
    "AskedOffsets",
    "Named",
    "Offset",
    "Offsets",
    "offsets_from_json",
    "offsets_to_json",
]

_POSITION: Final = re.compile(r"(-1|[0-9]{1,18}):(-1|[0-9]{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The last entry that has been read. Reading continues after it."""

    ledger_id: int
    entry_id: int  # -1 = before the ledger's first entry
    messages: int | None = None  # of the topic, from its first message to here; None = unknown

    @property
    def position(self) -> tuple[int, int]:
        """(ledger, entry); such pairs sort in the order of the log."""
        return self.ledger_id, self.entry_id

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @classmethod
    def parse(cls, value: object) -> Offset:
        """Read "ledger:entry", or the object of a checkpoint. Raises ValueError."""
        last, messages = (
            (value.get("last"), value.get("messages")) if isinstance(value, dict) else (value, None)
        )
        found = _POSITION.fullmatch(last) if isinstance(last, str) else None
        if found is None or not (messages is None or type(messages) is int):
            raise ValueError(f"{value!r} is not ledger:entry")
        return cls(ledger_id=int(found[1]), entry_id=int(found[2]), messages=messages)


BEGINNING: Final = Offset(ledger_id=-1, entry_id=-1, messages=0)
"""Before the first message that a topic ever had."""

OTHERS: Final = "*"
"""Stands for all topics that the JSON of an option does not name."""

Offsets = dict[str, Offset]
"""Offsets by the full names of topics and partitions."""

Named = Literal["earliest", "latest"]
"""The first or the last stored position, which is looked up when it is used."""


def offsets_to_json(offsets: Mapping[str, Offset]) -> dict[str, dict[str, str | int | None]]:
    """Return the JSON that Spark keeps in the checkpoint."""
    return {
        topic: {"last": str(offset), "messages": offset.messages} for topic, offset in sorted(offsets.items())
    }


def offsets_from_json(value: Mapping[str, object]) -> Offsets:
    """Return the offsets in a checkpoint: the inverse of `offsets_to_json`. Raises ValueError for other JSON."""
    return {topic: Offset.parse(offset) for topic, offset in value.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOffsets:
    """The option startingOffsets or endingOffsets: for each topic an offset, or the word earliest or latest."""

    others: Named | Offset  # for the topics that `by_topic` does not name
    by_topic: Mapping[str, Named | Offset]

    @classmethod
    def parse(cls, option: str, text: str, *, others: Named) -> AskedOffsets:
        """Read `earliest`, `latest`, or JSON that maps topics to these words or to ledger:entry. Raises InvalidOption.

        In the JSON, "*" (OTHERS) stands for every topic that is not named. Without it, those topics get `others`.
        """
        word = _named(text.strip().lower())
        if word is not None:
            return cls(others=word, by_topic={})
        try:
            given = json.loads(text)
            if not isinstance(given, dict):
                raise TypeError
            asked = {topic: _named(value) or Offset.parse(value) for topic, value in given.items()}
            return cls(
                others=asked.pop(OTHERS, others),
                by_topic={
                    full_topic_name(topic, f"option {option}"): value for topic, value in asked.items()
                },
            )
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise InvalidOption(
                f"option {option} is {text[:200]!r}: it must be earliest, latest or JSON like"
                ' {"topic": "ledger:entry"}'
            ) from None


def _named(value: object) -> Named | None:
    if value == "earliest":
        return "earliest"
    return "latest" if value == "latest" else None
