"""The place where an example runs, and the collection of all examples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.api import create_topic
from tests.support.vela import VelaProcess

__all__ = ["EXAMPLES", "WAIT_MS", "Example", "Place", "example", "refusal"]

WAIT_MS = 20_000
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Place:
    """A broker, and a key pair."""

    vela: VelaProcess
    public_key: str
    private_key: str
    urls: dict[str, str]  # by the client's name
    topics: list[str] = field(default_factory=list)  # the topic names that the example has got so far

    def url(self, api: Any) -> str:
        """Return the address that this client connects to."""
        return self.urls[api.__name__]

    def topic(self, partitions: int = 0) -> str:
        """Return the full name of a new topic. With `partitions`, create the topic."""
        name = f"persistent://public/default/both-{next(_numbers)}"
        if partitions:
            create_topic(self.vela, name, partitions=partitions)
        self.topics.append(name)
        return name

    def plain(self, value: Any) -> Any:
        """Return `value` as text, with "topic 0", "topic 1" … in place of topic names, which differ from run to run."""
        text = str(value)
        for number, topic in enumerate(self.topics):
            text = text.replace(topic, f"topic {number}")
        return text

    def keys(self, api: Any) -> Any:
        """Return a key reader of this client, for the key pair."""
        return api.CryptoKeyReader(self.public_key, self.private_key)


Example = Callable[[Any, Place], Any]

EXAMPLES: dict[str, tuple[Example, Any]] = {}
"""Each example by its name, with the value that it must return with either client."""


def example(expected: Any) -> Callable[[Example], Example]:
    """Return a decorator that adds an example to EXAMPLES, with the value that it must return."""

    def add(function: Example) -> Example:
        assert function.__name__ not in EXAMPLES
        EXAMPLES[function.__name__] = (function, expected)
        return function

    return add


def refusal(function: Callable[[], object]) -> str:
    """Return the name of the exception that the function raises, or "" if it raises none."""
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return ""
