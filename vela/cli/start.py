"""Where to begin in a topic: earliest, latest, a time or a message id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from vela.cli.times import moment_ms

if TYPE_CHECKING:
    from vela.message import MessageId

__all__ = ["SEEK_TO", "Start"]

_ID: Final = re.compile(r"([0-9]+):([0-9]+)(?::(-?[0-9]+))?(?::([0-9]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One of them."""

    word: str = ""  # earliest or latest
    time_ms: int | None = None
    id: tuple[int, int, int, int] | None = None  # partition, ledger, entry, index in the batch; -1 = none

    def target(self) -> MessageId | int:
        """As the SDK seeks to it."""
        from vela.message import MessageId

        if self.time_ms is not None:
            return self.time_ms
        if self.id is not None:
            return MessageId(*self.id)
        return MessageId.earliest if self.word == "earliest" else MessageId.latest


class _SeekTo(click.ParamType[Start]):
    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, Start):
            return value
        if value in ("earliest", "latest"):
            return Start(word=value)
        if found := _ID.fullmatch(value):
            ledger, entry = int(found[1]), int(found[2])
            third = -1 if found[3] is None else int(found[3])
            # ledger:entry:index, or as clients print it ledger:entry:partition:index
            partition, index = (-1, third) if found[4] is None else (third, int(found[4]))
            return Start(id=(partition, ledger, entry, index))
        try:
            return Start(time_ms=moment_ms(value))
        except ValueError:
            self.fail(
                f"{value!r} is no place: write earliest, latest, a time as 2026-11-20T09:00, or an id as 12:4071",
                param,
                ctx,
            )


SEEK_TO = _SeekTo()
