"""Find the topics and subscriptions whose names fit the name of a dead-letter topic."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from console.queries.database import fetch

__all__ = ["Origin", "has_usual_name", "origins_of", "possible_origins"]

_USUAL: Final = re.compile(r"(?P<namespace>.+/)(?P<rest>[^/]+)-DLQ(-partition-[0-9]+)?", re.DOTALL)
_MOST: Final = 40


class Origin(NamedTuple):
    """The topic and the subscription that dead letters come from."""

    topic: str
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    letters: str
    topic: str
    subscription: str


def has_usual_name(topic: str) -> bool:
    """Return whether a topic or partition has the usual name of a dead-letter topic."""
    return _USUAL.fullmatch(topic) is not None


def possible_origins(name: str) -> Iterator[Origin]:
    """Yield at most 40 pairs of topic and subscription that fit a name of the form TOPIC-SUBSCRIPTION-DLQ.

    Each hyphen before `-DLQ` may separate the topic from the subscription.
    """
    found = _USUAL.fullmatch(name)
    if found is None:
        return
    namespace, rest = found["namespace"], found["rest"]
    places = [at for at, letter in enumerate(rest) if letter == "-" and 0 < at < len(rest) - 1]
    for at in places[:_MOST]:
        yield Origin(namespace + rest[:at], rest[at + 1 :])


def origins_of(names: Collection[str]) -> dict[str, tuple[Origin, ...]]:
    """Return the existing topics and subscriptions that fit each name. Leaves out names without a match."""
    possible = [(name, *origin) for name in names for origin in possible_origins(name)]
    rows = fetch(
        _Row,
        "letters",
        "origins",
        {
            "letters": [name for name, _, _ in possible],
            "topics": [topic for _, topic, _ in possible],
            "subscriptions": [subscription for _, _, subscription in possible],
        },
    )
    found: dict[str, tuple[Origin, ...]] = {}
    for row in rows:
        found[row.letters] = (*found.get(row.letters, ()), Origin(row.topic, row.subscription))
    return found
