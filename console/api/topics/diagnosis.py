"""The operation that diagnoses a subscription."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ninja import Path, Router

from console.addresses import help_url
from console.api.access import AuthorizedRequest
from console.api.answers import Diagnosis
from console.api.app import read
from console.api.found import found_cursors
from console.api.parameters import TopicPath
from console.api.problems import Problem
from console.api.topics.topics import TOPIC
from console.diagnosis.diagnose import diagnose
from console.diagnosis.findings import Finding
from console.help.library import runbook_page
from console.queries.diagnosis.partitions import diagnose_partitions
from console.queries.diagnosis.snapshots import read_snapshots
from console.queries.subscription import subscription_head

__all__ = ["router"]

router = Router()


@read(router, f"{TOPIC}/subscriptions/{{name:subscription}}/diagnosis", response=Diagnosis)
def diagnosis(request: AuthorizedRequest, topic: Path[TopicPath], subscription: str) -> dict[str, Any]:
    """Say why a subscription does not drain, with evidence and cures.

    On a partitioned topic, the diagnosis covers the 20 partitions in the worst state.
    """
    now_ms = int(time.time() * 1000)
    left_out = 0
    head = subscription_head(topic.full_name, subscription)
    if head is not None:
        snapshots = read_snapshots([head], now_ms=now_ms)
        found = [_judged(request, each) for one in snapshots.values() for each in diagnose(one)]
    else:
        _, rows = found_cursors(topic.full_name, subscription)
        together = diagnose_partitions(rows, now_ms=now_ms)
        found = [
            _judged(request, each.finding, partition=each.partition, partitions=each.partitions)
            for each in together.findings
        ]
        left_out = len(rows) - len(together.heads)
    if not found:
        raise Problem(404, "SubscriptionNotFound", f"subscription {subscription} was just deleted")
    return {
        "topic": topic.full_name,
        "subscription": subscription,
        "at_ms": now_ms,
        "findings": found,
        "partitions_left_out": left_out,
    }


def _judged(
    request: AuthorizedRequest,
    finding: Finding,
    *,
    partition: int | None = None,
    partitions: Sequence[int] = (),
) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "sentence": finding.sentence,
        "evidence": finding.evidence,
        "cures": finding.cures,
        "runbook": request.build_absolute_uri(help_url(runbook_page(finding.rule))),
        "partition": partition,
        "partitions": partitions,
    }
