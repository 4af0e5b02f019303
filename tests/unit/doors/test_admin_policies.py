"""Policies as Pulsar shows them: in larger units, and several of Vela's policies as one."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from broker.core.policies import BacklogQuotaPolicy, InactiveTopicMode, Policies
from broker.doors.admin.policies.backlog_quotas import quota_map
from broker.doors.admin.policies.table import POLICIES, completed

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


def test_a_value_that_is_not_set_is_shown_as_it_is_in_force() -> None:
    in_force = asdict(
        Policies(
            retention_bytes=5 * 1024 * 1024,
            dispatch_rate_bytes=7,
            auto_create_topics=False,
            inactive_topic_mode=InactiveTopicMode.SUBSCRIPTIONS_CAUGHT_UP,
            backlog_quota_policy=BacklogQuotaPolicy.PRODUCER_EXCEPTION,
        )
    )
    set_here = {
        "retention_ms": 60_000,
        "dispatch_rate_messages": 3,
        "auto_create_partitions": 2,
        "inactive_topic_ms": 1000,
        "backlog_quota_bytes": 9,
    }
    found = completed(set_here, in_force)
    retention = BY_PATH["retention"].read(found)
    assert (retention.retentionTimeInMinutes, retention.retentionSizeInMB) == (1, 5)
    rate = BY_PATH["dispatchRate"].read(found)
    assert (rate.dispatchThrottlingRateInMsg, rate.dispatchThrottlingRateInByte) == (3, 7)
    assert not BY_PATH["autoTopicCreation"].read(found).allowAutoTopicCreation
    inactive = BY_PATH["inactiveTopicPolicies"].read(found)
    assert inactive.inactiveTopicDeleteMode == "delete_when_subscriptions_caught_up"
    assert quota_map(found)["destination_storage"].policy == "producer_exception"
    assert "publish_rate_bytes" not in found
    assert completed({}, in_force) == {}
    assert completed({"backlog_quota_policy": "producer_exception"}, in_force).keys() == {
        "backlog_quota_policy"
    }
