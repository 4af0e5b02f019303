"""The findings of a diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.diagnosis.snapshot import Snapshot

__all__ = ["Cure", "Evidence", "Finding", "Rule", "Severity", "Unit", "fact"]


class Severity(StrEnum):
    """The effect of a problem on the backlog."""

    STOPPED = "stopped"  # Nothing drains
    SLOW = "slow"  # The backlog drains too slowly, or a part of it is blocked
    NOTICE = "notice"  # The problem does not slow the drain, but needs attention
    FINE = "fine"


class Unit(StrEnum):
    """The unit or the format of a value in the evidence."""

    MESSAGES = "messages"
    ENTRIES = "entries"
    CONSUMERS = "consumers"
    STATEMENTS = "statements"
    TIMES = "times"
    SECONDS = "seconds"
    PER_SECOND = "per second"
    BYTES = "bytes"
    TIME = "time"  # Unix milliseconds; 0 = never
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number or name that supports the sentence of a finding."""

    label: str
    value: int | float | str
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """One way to solve the problem. A cure that has only `text` has no link."""

    text: str
    act: str = ""  # Name of the act's form in console.forms
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    block: str = ""  # Block of the subscription's page that the link opens
    topic: str = ""  # Full name of the topic whose page the link opens
    letters: str = ""  # Full name of the dead-letter topic that the link opens


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a rule that matches."""

    rule: str
    severity: Severity
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the diagnosis. `find` is a pure function of a snapshot.

    `window_s` is usually how long a symptom must last before the rule reports it.
    """

    id: str
    window_s: float
    find: Callable[[Snapshot], Finding | None]


def fact(label: str, value: float | str, unit: Unit = Unit.TEXT) -> Evidence:
    """Return a piece of evidence. An empty value means unknown."""
    return Evidence(label=label, value=value, unit=unit)
