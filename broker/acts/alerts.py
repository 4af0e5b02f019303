"""Alert rules as SQL parameters and as words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from broker.core.alerts import SUBJECTS_MOST, Measure
from broker.storage.alerts import match_parameters
from broker.storage.queries import query
from vela.wire.quantities import write_length, write_size

__all__ = [
    "SUBJECTS_MOST",
    "TEXTS",
    "condition",
    "masked_url",
    "matches_parameters",
    "matches_statement",
    "rule_columns",
    "subject_name",
    "value_words",
]

_CONDITIONS: Final = {
    Measure.BACKLOG: "backlog above {limit}",
    Measure.AGE: "oldest unacked message older than {limit}",
    Measure.STUCK: "stuck",
    Measure.BEHIND: "stuck or falling behind",
    Measure.NO_CONSUMER: "no consumer",
    Measure.DEAD_LETTERS: "dead letters: more than {limit}",
    Measure.REDELIVERIES: "redeliveries: more than {limit}",
    Measure.STORED: "stored: more than {limit}",
    Measure.BROKER: "the broker is silent",
}
_WITHIN: Final = "{condition} within {length}"
_FOR: Final = "{condition} for {length}"
_PER_SECOND: Final = "{value:,} per second"
_MESSAGE: Final = "{value:,} message"
_MESSAGES: Final = "{value:,} messages"
_BROKER: Final = "the broker"
_OF_TOPIC: Final = "{subscription} of {topic}"

TEXTS: Final = (
    *_CONDITIONS.values(),
    _WITHIN,
    _FOR,
    _PER_SECOND,
    _MESSAGE,
    _MESSAGES,
    _BROKER,
    _OF_TOPIC,
)
"""Every text that the functions below pass to `say` for translation."""

_Say = Callable[[str], str]


def matches_statement() -> str:
    """Return the SQL statement that finds the matches of alert rules."""
    return query("alerts", "matches").decode()


def matches_parameters(rule: Mapping[str, object], now_ms: int) -> dict[str, Any]:
    """Return the parameters of `matches_statement` for one rule."""
    return match_parameters([rule], now_ms)


def rule_columns(
    *,
    rule_id: int,
    measure: str,
    threshold: int | None,
    within_ms: int | None,
    namespaces: str,
    topics: str,
    subscriptions: str,
) -> dict[str, object]:
    """Return a rule with its patterns as PostgreSQL regular expressions."""
    return {
        "rule_id": rule_id,
        "measure": measure,
        "threshold": threshold or 0,
        "within_ms": within_ms,
        "topics": f"^[a-z-]+://{_place(namespaces)}/{_glob(topics)}(-partition-[0-9]+)?$",
        "subscriptions": f"^{_glob(subscriptions)}$",
    }


def _place(pattern: str) -> str:
    tenant, _, namespace = pattern.partition("/")
    return "/".join("[^/]+" if part in ("*", "") else re.escape(part) for part in (tenant, namespace))


def _glob(pattern: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r"\*+", pattern))


def condition(
    measure: str, threshold: int | None, within_ms: int | None, for_ms: int, *, say: _Say = str
) -> str:
    """Return the condition of a rule in words."""
    kind = Measure(measure)
    limit = value_words(measure, threshold or 0, say=say) if kind.unit else ""
    words = say(_CONDITIONS[kind]).format(limit=limit)
    if within_ms is not None:
        words = say(_WITHIN).format(condition=words, length=write_length(within_ms))
    return say(_FOR).format(condition=words, length=write_length(for_ms)) if for_ms else words


def value_words(measure: str, value: int, *, say: _Say = str) -> str:
    """Return a value with its unit. Long times are rounded down."""
    unit = Measure(measure).unit
    if unit == "bytes":
        return write_size(value)
    if unit == "per second":
        return say(_PER_SECOND).format(value=value)
    if unit == "messages":
        return say(_MESSAGE if value == 1 else _MESSAGES).format(value=value)
    step = 1000 if value < 600_000 else 60_000 if value < 172_800_000 else 3_600_000
    return write_length(value if value < 1000 else value // step * step)


def subject_name(topic_name: str, subscription_name: str, *, say: _Say = str) -> str:
    """Return the name of an alert's subject."""
    if not topic_name:
        return say(_BROKER)
    if not subscription_name:
        return topic_name
    return say(_OF_TOPIC).format(subscription=subscription_name, topic=topic_name)


def masked_url(url: str) -> str:
    """Return a webhook's URL without the parts that may be secret."""
    if not url:
        return ""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}/…"
