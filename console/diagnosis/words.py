"""Findings in words: how grave one is, and each piece of evidence with its unit."""

from __future__ import annotations

from console.diagnosis.findings import Evidence, Severity, Unit
from console.diagnosis.said import Said, said, said_many
from console.words.numerals import UNKNOWN, count, rate, size, span

__all__ = ["severity_word", "value_text"]

_SEVERITIES = {
    Severity.STOPPED: (said("stopped"), "bad"),
    Severity.SLOW: (said("held up"), "warn"),
    Severity.NOTICE: (said("notice"), "calm"),
    Severity.FINE: (said("fine"), "good"),
}


def severity_word(severity: Severity) -> tuple[Said, str]:
    """Return the badge's word and tone: good, calm, warn or bad."""
    return _SEVERITIES[severity]


def value_text(evidence: Evidence) -> str:
    """Write a value with its unit. A time stays a number: pages write it with its age."""
    value = evidence.value
    if isinstance(value, str):
        return value or UNKNOWN
    n = round(value)
    number = count(n)
    match evidence.unit:
        case Unit.MESSAGES:
            return said_many("{number} message", "{number} messages", n=n, number=number)
        case Unit.ENTRIES:
            return said_many("{number} entry", "{number} entries", n=n, number=number)
        case Unit.CONSUMERS:
            return said_many("{number} consumer", "{number} consumers", n=n, number=number)
        case Unit.TIMES:
            return said_many("{number} time", "{number} times", n=n, number=number)
        case Unit.SECONDS:
            return span(value)
        case Unit.PER_SECOND:
            return rate(value)
        case Unit.BYTES:
            return size(round(value))
        case _:
            return str(value)
