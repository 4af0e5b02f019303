"""The findings of several partitions together."""

from __future__ import annotations

from console.diagnosis.findings import Finding, Severity
from console.diagnosis.partitions import shared_findings


def a_finding(rule: str, severity: Severity, sentence: str = "") -> Finding:
    return Finding(rule=rule, severity=severity, sentence=sentence)


def test_each_rule_comes_once_and_the_worst_comes_first() -> None:
    found = shared_findings(
        {
            2: [a_finding("too_slow", Severity.SLOW, "2")],
            0: [a_finding("too_slow", Severity.SLOW, "0"), a_finding("dead_letters", Severity.NOTICE)],
            1: [a_finding("paused", Severity.STOPPED)],
        }
    )
    assert [(each.finding.rule, each.partition, each.partitions) for each in found] == [
        ("paused", 1, (1,)),
        ("too_slow", 2, (0, 2)),
        ("dead_letters", 0, (0,)),
    ]
    assert found[1].finding.sentence == "2"


def test_the_numbers_are_those_of_a_partition_where_it_is_worst() -> None:
    (found,) = shared_findings(
        {0: [a_finding("hoarder", Severity.NOTICE)], 1: [a_finding("hoarder", Severity.SLOW)]}
    )
    assert (found.partition, found.finding.severity) == (1, Severity.SLOW)


def test_a_partition_without_a_problem_is_not_mentioned_beside_one_with_a_problem() -> None:
    fine = a_finding("caught_up", Severity.FINE)
    assert [each.finding for each in shared_findings({0: [fine], 1: [fine]})] == [fine]
    slow = a_finding("too_slow", Severity.SLOW)
    assert [each.finding for each in shared_findings({0: [fine], 1: [slow]})] == [slow]
    assert shared_findings({}) == []


def test_a_notice_comes_after_the_state_and_does_not_replace_it() -> None:
    fine, notice = a_finding("draining", Severity.FINE), a_finding("dead_letters", Severity.NOTICE)
    assert [each.finding for each in shared_findings({0: [fine, notice], 1: [fine]})] == [fine, notice]
