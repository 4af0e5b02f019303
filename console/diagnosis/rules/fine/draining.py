"""Fine: the consumers ack at least as fast as producers publish."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import STILL_PER_S, Snapshot

__all__ = ["RULE"]

WINDOW_S: Final = 5.0  # over which the broker measures rates


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    rate_in, rate_acked = snapshot.topic.message_rate_in, subscription.message_rate_acked
    if rate_acked is None or rate_in is None or not snapshot.is_draining_at_all:
        return None
    net = rate_acked - rate_in
    evidence: list[Evidence] = [
        fact("acked", rate_acked, Unit.PER_SECOND),
        fact("published", rate_in, Unit.PER_SECOND),
    ]
    if net >= STILL_PER_S:
        sentence = "Consumers ack faster than producers publish, so the backlog drains."
        evidence.append(fact("time left", subscription.backlog_messages / net, Unit.SECONDS))
    else:
        sentence = "Consumers keep up with the producers."
    return Finding(rule=RULE.id, severity=Severity.FINE, sentence=sentence, evidence=tuple(evidence))


RULE: Final = Rule(id="draining", window_s=WINDOW_S, find=find)
