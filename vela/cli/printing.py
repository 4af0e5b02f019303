"""What `vela consume` and `vela read` write."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vela.cli.errors import CliError, Exit
from vela.cli.pipes import write_all
from vela.cli.text.message_format import printer
from vela.cli.text.numerals import messages as messages_word

if TYPE_CHECKING:
    from vela.message import Message

__all__ = ["PIECE", "Printing"]

PIECE: Final = 500  # messages written at once


@dataclass(slots=True, kw_only=True)
class Printing:
    """Gathers what is received, writes it, and knows when there was enough."""

    form: str
    most: int | None
    written: int = 0
    _pending: list[bytes] = field(default_factory=list)
    _print: Callable[[Message], bytes] | None = None

    def add(self, message: Message) -> None:
        """To be written."""
        if self._print is None:
            self._print = printer(self.form, is_terminal=sys.stdout.isatty())
        self._pending.append(self._print(message))

    @property
    def is_enough(self) -> bool:
        """Whether all that was asked for is there."""
        return self.most is not None and self.written + len(self._pending) >= self.most

    async def write(self) -> None:
        """What was gathered. Raises BrokenPipeError when nobody reads any more."""
        pieces, self._pending = self._pending, []
        await write_all(sys.stdout.fileno(), b"".join(pieces))
        self.written += len(pieces)

    def require_enough(self) -> None:
        """Raises CliError with code 3 when nothing, or less than was asked for, came."""
        if self.written < (self.most or 1):
            wanted = f" of {self.most:,}" if self.most else ""
            raise CliError(f"{messages_word(self.written)}{wanted} came", Exit.NOTHING, code="Timeout")
