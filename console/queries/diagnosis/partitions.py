"""Diagnose a subscription on the worst partitions of its topic, and merge the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.diagnosis.diagnose import diagnose
from console.diagnosis.partitions import SharedFinding, shared_findings
from console.queries.diagnosis.snapshots import read_snapshots
from console.queries.numbers import CursorRow
from console.queries.subscription import SubscriptionHead, subscription_heads

__all__ = ["PARTITIONS_DIAGNOSED", "PartitionsDiagnosis", "diagnose_partitions"]

PARTITIONS_DIAGNOSED: Final = 20
_UNREPORTED: Final = 99  # Sorts after every state


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsDiagnosis:
    """The findings on the worst partitions."""

    heads: Mapping[int, SubscriptionHead]  # Keyed by partition
    findings: Sequence[SharedFinding]


def diagnose_partitions(rows: Sequence[CursorRow], *, now_ms: int) -> PartitionsDiagnosis:
    """Diagnose the 20 worst cursors of a subscription, ranked by state and then by backlog."""
    worst = sorted(rows, key=lambda row: (row.state or _UNREPORTED, -row.backlog_messages))
    known = subscription_heads([row.id for row in worst[:PARTITIONS_DIAGNOSED]])
    heads = [known[row.id] for row in worst if row.id in known]
    snapshots = read_snapshots(heads, now_ms=now_ms)
    return PartitionsDiagnosis(
        heads={head.partition: head for head in heads},
        findings=shared_findings(
            {head.partition: diagnose(snapshots[head.id]) for head in heads if head.id in snapshots}
        ),
    )
