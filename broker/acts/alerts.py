"""Shared by the pages about alerts and the task that finds them: patterns, words, and the statement that looks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from broker.core.alerts import SUBJECTS_MOST, Measure
from broker.storage.alerts import match_parameters
from broker.storage.queries import query
from vela.wire.quantities import write_length, write_size

__all__ = [
    "SUBJECTS_MOST",
    "condition",
    "masked_url",
    "matches_parameters",
    "matches_statement",
    "rule_columns",
    "subject_name",
    "value_words",
]

_BEGIN: Final = {
    Measure.BACKLOG: "backlog above",
    Measure.AGE: "oldest unacked message older than",
    Measure.STUCK: "stuck",
    Measure.BEHIND: "stuck or falling behind",
    Measure.NO_CONSUMER: "no consumer",
    Measure.DEAD_LETTERS: "dead letters: more than",
    Measure.REDELIVERIES: "redeliveries: more than",
    Measure.STORED: "stored: more than",
    Measure.BROKER: "the broker is silent",
}


def matches_statement() -> str:
    """Return the statement that finds the topics and subscriptions over the limits of some rules."""
    return query("alerts", "matches").decode()


def matches_parameters(rule: Mapping[str, object], now_ms: int) -> dict[str, Any]:
    """Return the statement's parameters for one rule, which need not be stored."""
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
    """Return a rule as the statement takes it: its patterns as regular expressions of PostgreSQL."""
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


def condition(measure: str, threshold: int | None, within_ms: int | None, for_ms: int) -> str:
    """Return the condition of a rule in words: "backlog above 10,000 messages for 5 minutes"."""
    kind = Measure(measure)
    words = _BEGIN[kind]
    if kind.unit:
        words += f" {value_words(measure, threshold or 0)}"
    if within_ms is not None:
        words += f" within {write_length(within_ms)}"
    return f"{words} for {write_length(for_ms)}" if for_ms else words


def value_words(measure: str, value: int) -> str:
    """Return a value with its unit. Lengths of time are cut to whole seconds, or minutes from ten minutes on."""
    unit = Measure(measure).unit
    if unit == "bytes":
        return write_size(value)
    if unit == "per second":
        return f"{value:,} per second"
    if unit == "messages":
        return f"{value:,} message" + ("" if value == 1 else "s")
    step = 1000 if value < 600_000 else 60_000 if value < 172_800_000 else 3_600_000
    return write_length(value if value < 1000 else value // step * step)


def subject_name(topic_name: str, subscription_name: str) -> str:
    """Return the name of an alert's subject, for a line of text."""
    if not topic_name:
        return "the broker"
    return f"{subscription_name} of {topic_name}" if subscription_name else topic_name


def masked_url(url: str) -> str:
    """Return a webhook's URL without the parts that may be secret: user, password, path and query."""
    if not url:
        return ""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}/…"
