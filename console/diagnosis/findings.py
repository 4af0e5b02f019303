"""The findings of a diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.diagnosis.snapshot import Snapshot

__all__ = ["Cure", "Evidence", "Finding", "Rule", "Severity", "Unit", "fact"]


class Severity(StrEnum):
    """The effect of a problem on the backlog."""

    STOPPED = "stopped"  # The backlog does not drain
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
    TIME = "time"  # Unix milliseconds; 0 means never
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number or name that supports a finding."""

    label: str
    value: int | float | str
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """One way to solve the problem. If only `text` is set, the cure has no link."""

    text: str
    act: str = ""  # The link opens the form with this name in `console.forms.act_forms`
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    block: str = ""  # The link opens this block of the subscription's page
    topic: str = ""  # The link opens the page of the topic with this full name
    letters: str = ""  # The link opens the dead-letter topic with this full name


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

    Most rules report a symptom only after it has lasted for `window_s` seconds.
    """

    id: str
    window_s: float
    find: Callable[[Snapshot], Finding | None]


def fact(label: str, value: float | str, unit: Unit = Unit.TEXT) -> Evidence:
    """Return a piece of evidence. An empty `value` means unknown."""
    return Evidence(label=label, value=value, unit=unit)
