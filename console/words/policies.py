"""Words for policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from broker.topics.policies_in_force import PolicyInForce
from console.words.numerals import count

__all__ = ["grouped", "origin", "spaced"]

_LONG_NUMBER: Final = re.compile(r"[0-9]{4,}")

# The first policy of each group, and the heading of the group.
_GROUPS: Final = {
    "retention_ms": gettext_noop("How long messages stay"),
    "delayed_delivery": gettext_noop("Delivery"),
    "deduplication": gettext_noop("Producers"),
    "max_producers": gettext_noop("Clients and automatic creation"),
    "protected": gettext_noop("Operators"),
}


def grouped(policies: Iterable[PolicyInForce]) -> Iterator[tuple[str, list[PolicyInForce]]]:
    """Yield the heading and the policies of each group."""
    group = ""

    def heading(each: PolicyInForce) -> str:
        nonlocal group
        group = _GROUPS.get(each.name, group)
        return group

    for name, members in groupby(policies, key=heading):
        yield _(name), list(members)


def origin(policy: PolicyInForce) -> str:
    """Return words that say where a policy's value comes from."""
    if policy.set_on is None:
        return _("broker default")
    if policy.own is not None:
        return _("set on this topic") if policy.set_on == "topic" else _("set on this namespace")
    return _("set on its topic") if policy.set_on == "topic" else _("set on its namespace")


def spaced(words: str) -> str:
    """Put narrow spaces into long numbers, as in 50 000."""
    return _LONG_NUMBER.sub(lambda found: count(int(found[0])), words)
