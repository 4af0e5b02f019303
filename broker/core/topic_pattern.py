"""Patterns that choose topics of a namespace by name.

RE2 matches the patterns, as in Pulsar's brokers, so that no client can block the broker with a slow pattern.
"""

from __future__ import annotations

from typing import Final

import re2

from broker.core.errors import InvalidTopicName, NotAllowed
from broker.core.topic_name import TopicName, parse_namespace
from vela.wire.topic_name import DOMAINS

__all__ = ["TopicPattern", "split_pattern"]

MAX_PATTERN_CHARACTERS: Final = 256
# The slowest compiled pattern of this size takes 4 ms for a name of 1,000 characters.
_PROGRAM_BYTES: Final = 64 * 1024
_SEPARATOR: Final = "://"


class TopicPattern:
    """A regular expression that must match a whole `tenant/namespace/topic`, without domain and partition."""

    def __init__(self, text: str) -> None:
        """Compile a pattern. Raises NotAllowed if the pattern is too long or RE2 refuses it."""
        self.text = text
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise NotAllowed(
                f"the pattern has {len(text)} characters: it may have at most {MAX_PATTERN_CHARACTERS}"
            )
        options = re2.Options()
        options.max_mem = _PROGRAM_BYTES
        options.log_errors = False
        try:
            self._compiled = re2.compile(_without_domain(text), options)
        except (re2.error, UnicodeError) as error:
            raise NotAllowed(
                f"the pattern is not a regular expression that RE2 takes: {_reason(error)}"
            ) from None

    def matches(self, topic: str) -> bool:
        """Return whether the pattern matches the topic."""
        return self._compiled.fullmatch(TopicName.parse(topic).base.partition(_SEPARATOR)[2]) is not None


def split_pattern(text: str) -> tuple[str, str]:
    """Return the domain and the `tenant/namespace` of a pattern.

    Raises InvalidTopicName if a part is missing or invalid.
    """
    domain, separator, rest = text.partition(_SEPARATOR)
    parts = rest.split("/", 2)
    if not separator or domain not in DOMAINS or len(parts) < 3 or not parts[2]:
        raise InvalidTopicName(
            "a pattern is persistent://{tenant}/{namespace}/{regular expression}, or begins with non-persistent://"
        )
    parse_namespace(f"{parts[0]}/{parts[1]}")
    return domain, f"{parts[0]}/{parts[1]}"


def _without_domain(text: str) -> str:
    """Remove the domain, but keep any text before the domain, such as ^."""
    before, separator, rest = text.partition(_SEPARATOR)
    if not separator:
        return text
    for domain in sorted(DOMAINS, key=len, reverse=True):
        if before.endswith(domain):
            return before.removesuffix(domain) + rest
    return text


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode(errors="replace") if isinstance(first, bytes) else str(error)
