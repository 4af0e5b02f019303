"""What a command says about the act that it requested, if it does not learn what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from vela.cli.errors import CliError, Exit, say

__all__ = ["named_if_unanswered"]

_NO_ANSWER: Final = frozenset(("ConsoleAway", "ConsoleTimeout", "NotTheConsole"))


@contextmanager
def named_if_unanswered(act_id: int) -> Iterator[None]:
    """If Ctrl-C interrupts the block, or the console does not answer, name the act: it may still be applied.

    A user who only read "try again" would plan and apply the same act a second time.
    """
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nact {act_id} was requested and may still be applied; look with `vela acts show {act_id}`")
        raise
    except CliError as error:
        if error.code not in _NO_ANSWER:
            raise
        raise error.worded(
            f"{error.message}; act {act_id} may still be applied: look with `vela acts show {act_id}` first",
            Exit(error.exit_code),
            code=error.code,
            act=act_id,
        ) from error
