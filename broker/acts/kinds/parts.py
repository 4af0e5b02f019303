"""Label the plans, results and errors of single partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from broker.acts.kinds.base import Part
from broker.core.errors import BrokerError

__all__ = ["name_error", "named", "part_json"]


def part_json(part: Part, shown: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return one partition's plan or result, with the partition's number and topic."""
    about: dict[str, Any] = {"partition": part.partition, "topic": part.context.act.topic_name}
    if part.context.act.undo_of is not None:
        about["undo_of"] = part.context.act.undo_of
    return {**about, **more, **shown}


@contextmanager
def named(part: Part) -> Iterator[None]:
    """Put the partition's number before the text of a BrokerError that the `with` block raises."""
    try:
        yield
    except BrokerError as error:
        name_error(part, error)
        raise


def name_error(part: Part, error: BrokerError) -> None:
    """Put the partition's number before the text of the error."""
    error.args = (f"partition {part.partition}: {error}", *error.args[1:])
