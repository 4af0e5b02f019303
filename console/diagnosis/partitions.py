"""Combine the findings on the partitions of a subscription, so that each rule reports once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.diagnosis.diagnose import RULES
from console.diagnosis.findings import Finding, Severity

__all__ = ["SharedFinding", "shared_findings"]

_SEVERITIES: Final = (Severity.STOPPED, Severity.SLOW, Severity.FINE, Severity.NOTICE)
_WRONG: Final = (Severity.STOPPED, Severity.SLOW)
_CAUSES: Final = tuple(rule.id for rule in RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFinding:
    """One rule's most severe finding, and all partitions on which the rule matched."""

    finding: Finding
    partition: int  # The first partition with the rule's most severe finding
    partitions: tuple[int, ...]


def shared_findings(found: Mapping[int, Sequence[Finding]]) -> list[SharedFinding]:
    """Return one finding for each rule, the most severe first.

    If any finding is STOPPED or SLOW, leave out the FINE findings.
    """
    by_rule: dict[str, dict[int, Finding]] = {}
    for partition, findings in found.items():
        for finding in findings:
            by_rule.setdefault(finding.rule, {})[partition] = finding
    shared = [_shared(each) for each in by_rule.values()]
    if any(each.finding.severity in _WRONG for each in shared):
        shared = [each for each in shared if each.finding.severity is not Severity.FINE]
    return sorted(shared, key=_rank)


def _shared(found: Mapping[int, Finding]) -> SharedFinding:
    worst = min(found, key=lambda partition: _SEVERITIES.index(found[partition].severity))
    return SharedFinding(finding=found[worst], partition=worst, partitions=tuple(sorted(found)))


def _rank(each: SharedFinding) -> tuple[int, int]:
    return _SEVERITIES.index(each.finding.severity), _CAUSES.index(each.finding.rule)
