"""Parameter types for a place in a topic (earliest, latest, a time or a message id) and for a message id alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from vela.cli.text.times import moment_ms

if TYPE_CHECKING:
    from vela.message import MessageId

__all__ = ["MESSAGE_ID", "SEEK_TO", "Start"]

_ID: Final = re.compile(r"([0-9]+):([0-9]+)(?::(-?[0-9]+))?(?::([0-9]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A place in a topic. Exactly one field is set."""

    word: str = ""  # earliest or latest
    time_ms: int | None = None
    id: tuple[int, int, int, int] | None = None  # partition, ledger, entry, index in the batch; -1 = none

    def target(self) -> MessageId | int:
        """Return the argument for the client library's `seek`."""
        from vela.message import MessageId

        if self.time_ms is not None:
            return self.time_ms
        if self.id is not None:
            return MessageId(*self.id)
        return MessageId.earliest if self.word == "earliest" else MessageId.latest


def _id_of(text: str) -> tuple[int, int, int, int] | None:
    """Return partition, ledger, entry and index in the batch; None if the text is not an id."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    third = -1 if found[3] is None else int(found[3])
    # ledger:entry:index or, as clients print it, ledger:entry:partition:index
    partition, index = (-1, third) if found[4] is None else (third, int(found[4]))
    return partition, int(found[1]), int(found[2]), index


class _MessageIdText(click.ParamType[str]):
    """A message id for acts. Acts take two or four numbers: they would read a third number as a partition."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = _id_of(value)
        if found is None:
            self.fail(
                f"{value!r} is not a message id: write it as 12:4071, or as 12:4071:3 inside a batch",
                param,
                ctx,
            )
        partition, ledger, entry, index = found
        position = f"{ledger}:{entry}"
        return position if (partition, index) == (-1, -1) else f"{position}:{partition}:{index}"


class _SeekTo(click.ParamType[Start]):
    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, Start):
            return value
        if value in ("earliest", "latest"):
            return Start(word=value)
        if (found := _id_of(value)) is not None:
            return Start(id=found)
        try:
            return Start(time_ms=moment_ms(value))
        except ValueError as error:
            text = f"{value!r} is not a place: write earliest, latest, a time as 2026-11-20T09:00, or an id as 12:4071"
            self.fail(str(error) if value.replace(".", "").isdecimal() else text, param, ctx)


MESSAGE_ID = _MessageIdText()
SEEK_TO = _SeekTo()
