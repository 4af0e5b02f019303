"""The output of `vela consume` and `vela read`."""

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

PIECE: Final = 500  # most messages in one write


@dataclass(slots=True, kw_only=True)
class Printing:
    """Collects received messages, writes them, and knows when there are enough."""

    form: str
    most: int | None
    written: int = 0
    _pending: list[bytes] = field(default_factory=list)
    _print: Callable[[Message], bytes] | None = None

    def add(self, message: Message) -> None:
        """Add a message to write."""
        if self._print is None:
            self._print = printer(self.form, is_terminal=sys.stdout.isatty())
        self._pending.append(self._print(message))

    @property
    def is_enough(self) -> bool:
        """Return whether there are as many messages as requested."""
        return self.most is not None and self.written + len(self._pending) >= self.most

    async def write(self) -> None:
        """Write the collected messages. Raises BrokenPipeError if the reader has closed the pipe."""
        pieces, self._pending = self._pending, []
        await write_all(sys.stdout.fileno(), b"".join(pieces))
        self.written += len(pieces)

    def require_enough(self) -> None:
        """Raise CliError with exit code 3 if no messages, or fewer than requested, were written."""
        if self.written < (self.most or 1):
            wanted = f" of {self.most:,}" if self.most else ""
            raise CliError(f"{messages_word(self.written)}{wanted} arrived", Exit.NOTHING, code="Timeout")
