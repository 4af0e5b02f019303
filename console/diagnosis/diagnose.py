"""All rules of the diagnosis, and the function that applies them.

`CAUSES` lists a cause before its effects. The first rule that matches therefore finds the leading cause.
"""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Finding, Rule
from console.diagnosis.rules.consumers import (
    hoarder,
    incompatible_client,
    no_consumer,
    no_permits,
    not_reading,
    silent_active,
    too_slow,
    zero_queue_batch,
)
from console.diagnosis.rules.fine import (
    caught_up,
    draining,
    just_delivered,
    nothing_acked,
    unexplained,
    unreported,
)
from console.diagnosis.rules.limits import (
    backlog_quota,
    consumer_limit,
    dispatch_rate,
    paused,
    subscription_limit,
)
from console.diagnosis.rules.messages import (
    ack_hole,
    blocked_key,
    dead_letters,
    kept_unacked,
    oldest_segment,
    only_delayed,
    poison,
)
from console.diagnosis.rules.system import (
    database_blocked,
    disk_full,
    log_gap,
    long_transaction,
    no_broker,
    stalled,
    timers_silent,
    unreadable_log,
)
from console.diagnosis.snapshot import Snapshot

__all__ = ["CAUSES", "NOTICES", "RULES", "STANDINGS", "diagnose"]

CAUSES: Final[tuple[Rule, ...]] = (
    no_broker.RULE,
    database_blocked.RULE,
    paused.RULE,
    incompatible_client.RULE,
    no_consumer.RULE,
    log_gap.RULE,
    unreadable_log.RULE,
    only_delayed.RULE,
    zero_queue_batch.RULE,
    consumer_limit.RULE,
    subscription_limit.RULE,
    silent_active.RULE,
    blocked_key.RULE,
    not_reading.RULE,
    no_permits.RULE,
    hoarder.RULE,
    poison.RULE,
    dispatch_rate.RULE,
    ack_hole.RULE,
    kept_unacked.RULE,
    stalled.RULE,
    too_slow.RULE,
)
NOTICES: Final[tuple[Rule, ...]] = (
    backlog_quota.RULE,
    dead_letters.RULE,
    oldest_segment.RULE,
    disk_full.RULE,
    long_transaction.RULE,
    timers_silent.RULE,
)
# If no rule in `CAUSES` matches, the first match in this list describes the subscription.
STANDINGS: Final[tuple[Rule, ...]] = (
    caught_up.RULE,
    unreported.RULE,
    draining.RULE,
    just_delivered.RULE,
    nothing_acked.RULE,
    unexplained.RULE,
)
RULES: Final[tuple[Rule, ...]] = (*CAUSES, *NOTICES, *STANDINGS)


def diagnose(snapshot: Snapshot) -> list[Finding]:
    """Return the findings, the leading cause first."""
    found = [finding for rule in CAUSES if (finding := rule.find(snapshot)) is not None]
    if not found:
        found = [next(finding for rule in STANDINGS if (finding := rule.find(snapshot)) is not None)]
    found += [finding for rule in NOTICES if (finding := rule.find(snapshot)) is not None]
    return found
