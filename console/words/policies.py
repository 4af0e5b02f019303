"""Policies in words: groups for the page, and where a value comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from broker.topics.policies_in_force import PolicyInForce
from console.words.numerals import count

__all__ = ["grouped", "origin", "spaced"]

_LONG_NUMBER: Final = re.compile(r"[0-9]{4,}")

# The first policy of each group. The others follow it in the order in which the broker has them.
_GROUPS: Final = {
    "retention_ms": "How long messages stay",
    "delayed_delivery": "Delivery",
    "deduplication": "Producers",
    "max_producers": "Clients, and what connecting makes",
    "protected": "Operators",
}


def grouped(policies: Iterable[PolicyInForce]) -> Iterator[tuple[str, list[PolicyInForce]]]:
    """Return headings with their policies."""
    group = ""

    def heading(each: PolicyInForce) -> str:
        nonlocal group
        group = _GROUPS.get(each.name, group)
        return group

    for name, members in groupby(policies, key=heading):
        yield name, list(members)


def origin(policy: PolicyInForce) -> str:
    """Return where a value comes from."""
    if policy.set_on is None:
        return "broker default"
    return f"set on this {policy.set_on}" if policy.own is not None else f"set on its {policy.set_on}"


def spaced(words: str) -> str:
    """Write the numbers in a value with narrow spaces, which the policies read too: 50 000."""
    return _LONG_NUMBER.sub(lambda found: count(int(found[0])), words)
