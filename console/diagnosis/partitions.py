"""The findings on several partitions of one subscription, each rule once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.diagnosis.diagnose import RULES
from console.diagnosis.findings import Finding, Severity

__all__ = ["SharedFinding", "shared_findings"]

_SEVERITIES: Final = tuple(Severity)  # the worst first
_CAUSES: Final = tuple(rule.id for rule in RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFinding:
    """What one rule found on one or more partitions."""

    finding: Finding  # with the numbers of `partition`
    partition: int
    partitions: tuple[int, ...]  # all partitions on which the rule found something, in their order


def shared_findings(found: Mapping[int, Sequence[Finding]]) -> list[SharedFinding]:
    """Return each rule's finding with its partitions, sorted by severity (worst first), then in the order of causes.

    `found` has the diagnosis of each partition. Of a rule's findings, return the most severe one, and among equals the
    first. If anything is wrong on any partition, leave out the findings that say that nothing is wrong.
    """
    by_rule: dict[str, dict[int, Finding]] = {}
    for partition, findings in found.items():
        for finding in findings:
            by_rule.setdefault(finding.rule, {})[partition] = finding
    shared = [_shared(each) for each in by_rule.values()]
    wrong = [each for each in shared if each.finding.severity is not Severity.FINE]
    return sorted(wrong or shared, key=_rank)


def _shared(found: Mapping[int, Finding]) -> SharedFinding:
    worst = min(found, key=lambda partition: _SEVERITIES.index(found[partition].severity))
    return SharedFinding(finding=found[worst], partition=worst, partitions=tuple(sorted(found)))


def _rank(each: SharedFinding) -> tuple[int, int]:
    return _SEVERITIES.index(each.finding.severity), _CAUSES.index(each.finding.rule)
