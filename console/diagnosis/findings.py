"""The findings of a diagnosis: each is one sentence with its evidence and its cures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.diagnosis.snapshot import Snapshot

__all__ = ["Cure", "Evidence", "Finding", "Rule", "Severity", "Unit", "fact"]


class Severity(StrEnum):
    """How badly a problem affects the backlog."""

    STOPPED = "stopped"  # nothing drains
    SLOW = "slow"  # the backlog drains too slowly, or a part of it is blocked
    NOTICE = "notice"  # it does not slow the drain, but needs attention
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
    """One way to solve the problem, with a link to an act's form, to another page or to a block of the same page.

    A cure that has only `text` has no link.
    """

    text: str
    act: str = ""  # the name of its form in console.forms
    parameters: Mapping[str, str | int] = field(default_factory=dict)  # values to fill the form in with
    block: str = ""  # a block of the subscription's page
    topic: str = ""  # the full name of the topic whose page the link opens
    letters: str = ""  # the full name of a dead-letter topic to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule found: a sentence, the evidence for it, and its cures."""

    rule: str
    severity: Severity
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pure function of a snapshot.

    `window_s` is usually how long the symptom must last before it is reported; 0 = at once. If a rule's window measures
    something else, the rule's module says what.
    """

    id: str
    window_s: float
    find: Callable[[Snapshot], Finding | None]


def fact(label: str, value: float | str, unit: Unit = Unit.TEXT) -> Evidence:
    """Return a piece of evidence. An empty value means unknown."""
    return Evidence(label=label, value=value, unit=unit)
