"""Acts on several partitions that end early: which were applied, which one was refused, which were not tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from vela.cli.errors import CliError, Exit, say
from vela.cli.text.names import short_name

__all__ = ["named_partition", "said_how_far"]


@contextmanager
def named_partition(topic: str) -> Iterator[None]:
    """Name the partition in an error while one of several acts is planned; "" = there is only one act."""
    try:
        yield
    except CliError as error:
        if not topic:
            raise
        text = f"{short_name(topic)}: {error.message}; nothing was changed on any partition"
        raise error.worded(text, Exit(error.exit_code), code=error.code) from error


@contextmanager
def said_how_far(planned: Sequence[Mapping[str, Any]], at: int) -> Iterator[None]:
    """Say in an error what happened to each of `planned`, while the one at `at` is applied.

    If an earlier act was applied, the exit code becomes FAILED; otherwise it stays. After Ctrl-C, name this act and
    those after it: a requested act cannot be called back.
    """
    try:
        yield
    except KeyboardInterrupt:
        number, left = planned[at]["id"], planned[at + 1 :]
        say(
            f"\nact {number} was requested and may still be applied; look with `vela acts show {number}`"
            + (f"; not tried: {_names(left)}" if left else "")
        )
        raise
    except CliError as error:
        if len(planned) == 1:
            raise
        applied, left = planned[:at], planned[at + 1 :]
        sentences = [
            f"stopped at {_name(planned[at])}: {error.message}",
            f"already applied: {_names(applied)}",
            f"not tried: {_names(left)}",
        ]
        raise error.worded(
            "; ".join(sentences),
            Exit.FAILED if applied else Exit(error.exit_code),
            code="PartlyApplied" if applied else error.code,
            act=planned[at]["id"],
            applied=[act["id"] for act in applied],
            not_tried=[act["id"] for act in left],
        ) from error


def _names(acts: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(map(_name, acts)) or "none"


def _name(act: Mapping[str, Any]) -> str:
    return f"act {act['id']} on {short_name(act['topic'])}"
