"""Report that consumers ack and do not fall behind."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 5.0


def find(snapshot: Snapshot) -> Finding | None:
    subscription = snapshot.subscription
    rate_in, rate_acked = snapshot.topic.message_rate_in, subscription.message_rate_acked
    if rate_acked is None or rate_in is None or not snapshot.consumers_ack:
        return None
    if subscription.state == "falling behind":
        return None
    evidence: list[Evidence] = [
        fact(said("acked"), rate_acked, Unit.PER_SECOND),
        fact(said("published"), rate_in, Unit.PER_SECOND),
    ]
    match subscription.state:
        case "draining":
            sentence = said("Consumers ack faster than producers publish, so the backlog drains.")
            if subscription.drain_s is not None:
                evidence.append(fact(said("time left"), subscription.drain_s, Unit.SECONDS))
        case "keeping up" | "idle":
            sentence = said("Consumers keep up with the producers.")
        case _:
            sentence = said("Consumers ack. It is too early to say whether the backlog drains.")
    return Finding(rule=RULE.id, severity=Severity.FINE, sentence=sentence, evidence=tuple(evidence))


RULE: Final = Rule(id="draining", window_s=WINDOW_S, find=find)
