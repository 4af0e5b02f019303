"""Turn findings into the words that a page shows."""

from __future__ import annotations

from dataclasses import replace

from console.diagnosis.findings import Evidence, Finding, Severity, Unit
from console.words.nouns import counted
from console.words.numerals import UNKNOWN, rate, size, span
from console.words.said import said, spoken

__all__ = ["severity_word", "spoken_finding", "value_text"]

# Use the alerts' words "critical" and "warning". The page also shows the subscription's state, such as "stuck", and
# "stopped" and "slow" would look like states, too.
_SEVERITIES = {
    Severity.STOPPED: (said("critical"), "bad"),
    Severity.SLOW: (said("warning"), "warn"),
    Severity.NOTICE: (said("notice"), "calm"),
    Severity.FINE: (said("fine"), "good"),
}


def spoken_finding(finding: Finding) -> Finding:
    """Return a finding with its texts in the language of the reader."""
    return replace(
        finding,
        sentence=spoken(finding.sentence),
        evidence=tuple(_spoken_evidence(each) for each in finding.evidence),
        cures=tuple(replace(cure, text=spoken(cure.text)) for cure in finding.cures),
    )


def _spoken_evidence(evidence: Evidence) -> Evidence:
    value = evidence.value
    return replace(
        evidence, label=spoken(evidence.label), value=spoken(value) if isinstance(value, str) else value
    )


def severity_word(severity: Severity) -> tuple[str, str]:
    """Return the word and the tone of a severity's badge."""
    word, tone = _SEVERITIES[severity]
    return spoken(word), tone


def value_text(evidence: Evidence) -> str:
    """Return a value with its unit, in the language of the reader.

    For `Unit.TIME`, return the number of Unix milliseconds.
    """
    value = evidence.value
    if isinstance(value, str):
        return spoken(value) or UNKNOWN
    match evidence.unit:
        case Unit.MESSAGES:
            return counted(round(value), "message")
        case Unit.ENTRIES:
            return counted(round(value), "entry")
        case Unit.CONSUMERS:
            return counted(round(value), "consumer")
        case Unit.STATEMENTS:
            return counted(round(value), "statement")
        case Unit.TIMES:
            return counted(round(value), "time")
        case Unit.SECONDS:
            return span(value)
        case Unit.PER_SECOND:
            return rate(value)
        case Unit.BYTES:
            return size(round(value))
        case _:
            return str(value)
