"""Parse the `partitions` parameter, such as "0,2,5-7"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from broker.acts.kinds.parameters import ActInvalid

__all__ = ["MOST_PARTS", "PARTITIONS", "PARTITIONS_SCHEMA", "chosen_partitions"]

PARTITIONS: Final = "partitions"
MOST_PARTS: Final = 1000  # Limits the size of the act's row, which contains each partition's plan
_MOST_NAMED: Final = 10_000  # Repeated partitions count too
PARTITIONS_SCHEMA: Final = {
    "type": "string",
    "description": "on a partitioned topic: the partitions to act on, such as 0,2,5-7; all by default",
}
_SHAPE: Final = re.compile(r"\s*[0-9]{1,5}(\s*-\s*[0-9]{1,5})?\s*(,\s*[0-9]{1,5}(\s*-\s*[0-9]{1,5})?\s*)*")


def chosen_partitions(raw: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the chosen partitions in ascending order, or None if the parameter is missing.

    Raises ActInvalid if the text is malformed or names more than 10,000 partitions.
    """
    text = raw.get(PARTITIONS)
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > 4096 or not _SHAPE.fullmatch(text):
        shown = repr(text)
        raise ActInvalid(
            f"the parameter {PARTITIONS} is {shown if len(shown) <= 80 else f'{shown[:77]}…'}: write the partitions"
            " like 0,2,5-7"
        )
    chosen: set[int] = set()
    named = 0
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        begin, end = int(first), int(last or first)
        if end < begin:
            raise ActInvalid(f"the parameter {PARTITIONS} is {text!r}: {end} is less than {begin}")
        named += end + 1 - begin
        if named > _MOST_NAMED:
            raise ActInvalid(f"the parameter {PARTITIONS} names more than {_MOST_NAMED} partitions")
        chosen.update(range(begin, end + 1))
    return tuple(sorted(chosen))
