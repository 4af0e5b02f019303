"""Findings in words: how grave one is, and each piece of evidence with its unit."""

from __future__ import annotations

from console.diagnosis.findings import Evidence, Severity, Unit
from console.words.numerals import UNKNOWN, count, rate, size, span

__all__ = ["severity_word", "value_text"]

_SEVERITIES = {
    Severity.STOPPED: ("stopped", "bad"),
    Severity.SLOW: ("held up", "warn"),
    Severity.NOTICE: ("notice", "calm"),
    Severity.FINE: ("fine", "good"),
}
_SINGULAR = {
    Unit.MESSAGES: ("message", "messages"),
    Unit.ENTRIES: ("entry", "entries"),
    Unit.CONSUMERS: ("consumer", "consumers"),
    Unit.TIMES: ("time", "times"),
}


def severity_word(severity: Severity) -> tuple[str, str]:
    """Return the badge's word and tone: good, calm, warn or bad."""
    return _SEVERITIES[severity]


def value_text(evidence: Evidence) -> str:
    """Write a value with its unit. A time stays a number: pages write it with its age."""
    value = evidence.value
    if isinstance(value, str):
        return value or UNKNOWN
    if evidence.unit in _SINGULAR:
        return f"{count(round(value))} {_SINGULAR[evidence.unit][value != 1]}"
    match evidence.unit:
        case Unit.SECONDS:
            return span(value)
        case Unit.PER_SECOND:
            return rate(value)
        case Unit.BYTES:
            return size(round(value))
        case _:
            return str(value)
