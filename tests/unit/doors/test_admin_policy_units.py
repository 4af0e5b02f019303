"""Policies in Pulsar's larger units: a small value is never shown as 0, which would mean no limit."""

from __future__ import annotations

import pytest

from broker.doors.admin.policies.backlog_quotas import quota_map
from broker.doors.admin.policies.table import POLICIES

BY_PATH = {each.namespace: each for each in POLICIES}


@pytest.mark.parametrize(
    ("path", "name", "value", "shown"),
    [
        ("messageTTL", "message_ttl_ms", 1, 1),
        ("messageTTL", "message_ttl_ms", 1000, 1),
        ("messageTTL", "message_ttl_ms", 1001, 2),
        ("messageTTL", "message_ttl_ms", 0, 0),
        ("subscriptionExpirationTime", "subscription_expiry_ms", 30_000, 1),
        ("subscriptionExpirationTime", "subscription_expiry_ms", 0, 0),
        ("maxUnackedMessagesPerConsumer", "max_unacked_per_consumer", -1, -1),
    ],
)
def test_a_number_is_rounded_up(path: str, name: str, value: int, shown: int) -> None:
    assert BY_PATH[path].read({name: value}) == shown


def test_other_times_are_rounded_up() -> None:
    inactive = BY_PATH["inactiveTopicPolicies"].read({"inactive_topic_ms": 500})
    assert inactive.maxInactiveDurationSeconds == 1
    assert quota_map({"backlog_quota_ms": 500})["message_age"].limitTime == 1
    retention = BY_PATH["retention"].read({"retention_ms": 1, "retention_bytes": -1})
    assert (retention.retentionTimeInMinutes, retention.retentionSizeInMB) == (1, -1)
