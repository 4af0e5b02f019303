"""The findings of a diagnosis: each is one sentence with its evidence and its cures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.diagnosis.snapshot import Snapshot

__all__ = ["Cure", "Evidence", "Finding", "Rule", "Severity", "Unit", "fact"]


class Severity(StrEnum):
    """What a finding means for the backlog."""

    STOPPED = "stopped"  # nothing drains
    SLOW = "slow"  # it drains too slowly, or something holds a part of it up
    NOTICE = "notice"  # it drains, and something else needs attention
    FINE = "fine"


class Unit(StrEnum):
    """How to read the value of a piece of evidence."""

    MESSAGES = "messages"
    ENTRIES = "entries"
    CONSUMERS = "consumers"
    TIMES = "times"
    SECONDS = "seconds"
    PER_SECOND = "per second"
    BYTES = "bytes"
    TIME = "time"  # Unix milliseconds; 0 = never
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number or name that proves the sentence."""

    label: str
    value: int | float | str
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """One way out. It names an act to plan, or a block of the page to look at. With neither, it is for you to do."""

    text: str
    act: str = ""  # a form of console.forms
    parameters: Mapping[str, str | int] = field(default_factory=dict)  # of that form
    block: str = ""  # a block of the subscription's page
    topic: str = ""  # the full name of another topic
    letters: str = ""  # the full name of a dead-letter topic, whose letters to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one rule that applies."""

    rule: str
    severity: Severity
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pure function over a snapshot. `window_s`: how long its symptom must last; 0 = it counts at once."""

    id: str
    window_s: float
    find: Callable[[Snapshot], Finding | None]


def fact(label: str, value: float | str, unit: Unit = Unit.TEXT) -> Evidence:
    """Return a piece of evidence. An empty text is unknown."""
    return Evidence(label=label, value=value, unit=unit)
