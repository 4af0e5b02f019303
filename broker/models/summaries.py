"""Tables for the console's pages."""

from __future__ import annotations

from django.db import models

from broker.core.subscription.standing import SubscriptionState
from broker.models.subscriptions import Subscription
from broker.models.topics import Namespace, Topic

__all__ = [
    "ConsumerDeparture",
    "ListedTopic",
    "SubscriptionObstacles",
    "SubscriptionState",
    "SubscriptionSummary",
    "TopicSummary",
]

_STATES = [(state.value, state.words) for state in SubscriptionState]


class TopicSummary(models.Model):
    """A topic's numbers for the console's lists."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    messages_in = models.BigIntegerField()
    bytes_in = models.BigIntegerField()
    stored_bytes = models.BigIntegerField()
    producers = models.IntegerField()
    message_rate_in = models.FloatField()
    byte_rate_in = models.FloatField()
    last_append_ms = models.BigIntegerField()  # 0 means never
    max_backlog_messages = models.BigIntegerField(db_index=True)
    subscriptions = models.IntegerField(db_default=0)  # Number of durable subscriptions
    worst_subscription = models.TextField(db_default="")  # The durable subscription with the largest backlog
    message_rate_acked = models.FloatField(db_default=0.0)
    last_used_ms = models.BigIntegerField(db_default=0)  # Time when a client last left
    updated_ms = models.BigIntegerField()
    # NULL means that the topic has no durable subscription.
    state = models.SmallIntegerField(null=True, choices=_STATES)
    state_since_ms = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "vela_topic_summary"
        indexes = [
            models.Index(fields=["state", "state_since_ms", "topic"], name="vela_topic_summary_worst"),
        ]

    def __str__(self) -> str:
        return f"{self.topic_id}: {self.messages_in}"


class ListedTopic(models.Model):
    """The columns by which the console sorts and filters topics. Partitions have no rows.

    The values of a partitioned topic cover all its partitions. Triggers write and delete the rows. Columns that change
    often have no index, so that PostgreSQL can use HOT updates.
    """

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True, db_constraint=False)
    namespace = models.ForeignKey(Namespace, models.CASCADE, db_index=False, db_constraint=False)
    name = models.TextField()
    subscriptions = models.IntegerField(db_default=0)
    # -1 means that the number is not known yet.
    backlog_messages = models.BigIntegerField(db_default=-1)
    stored_bytes = models.BigIntegerField(db_default=-1)
    message_rate_in = models.FloatField(db_default=-1.0)
    last_append_ms = models.BigIntegerField(db_default=-1)  # 0 means never
    # 2047 means that the topic has no durable subscription, or that the state is not known yet.
    state = models.SmallIntegerField(db_default=2047)
    state_since_ms = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "vela_listed_topic"
        indexes = [
            models.Index(fields=["name"], name="vela_listed_topic_name"),
            models.Index(fields=["namespace", "name"], name="vela_listed_topic_namespace"),
            models.Index(fields=["state", "state_since_ms", "name"], name="vela_listed_topic_worst"),
        ]

    def __str__(self) -> str:
        return self.name


class SubscriptionSummary(models.Model):
    """A subscription's numbers for the console's lists."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    # The backlog is the topic's messages_in minus acked_messages.
    acked_messages = models.BigIntegerField(db_default=0)
    acked_bytes = models.BigIntegerField(db_default=0)
    read_ledger = models.BigIntegerField()
    read_entry = models.BigIntegerField()
    consumers = models.IntegerField()
    unacked_messages = models.BigIntegerField()
    replay_entries = models.BigIntegerField()
    message_rate_out = models.FloatField()
    message_rate_acked = models.FloatField()
    messages_redelivered = models.BigIntegerField()
    last_used_ms = models.BigIntegerField(db_default=0)  # Time when a consumer last left
    updated_ms = models.BigIntegerField()
    problems = models.JSONField(db_default={})  # Maps each problem to the number of times it occurred
    # The smallest number is the worst state.
    state = models.SmallIntegerField(choices=_STATES, db_default=SubscriptionState.WATCHING.value)
    state_since_ms = models.BigIntegerField(db_default=0)
    drain_s = models.BigIntegerField(null=True)  # Seconds from updated_ms until the backlog is drained

    class Meta:
        db_table = "vela_subscription_summary"
        indexes = [
            models.Index(fields=["state", "state_since_ms", "subscription"], name="vela_subscription_worst"),
            models.Index(
                fields=["last_used_ms"], name="vela_subscription_unused", condition=models.Q(consumers=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.acked_messages}"


class SubscriptionObstacles(models.Model):
    """Obstacles to a subscription's deliveries."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    blocked = models.BooleanField()  # Too many messages are unacked
    rate_limited = models.BooleanField()
    gap = models.TextField()  # The entry that is missing from the log
    read_fault = models.TextField()  # Error of the latest log read
    # Key of the consumer that Failover has chosen, or 0.
    active_consumer = models.BigIntegerField()
    first_redeliveries = models.IntegerField()  # Redelivery count of the first unacked entry
    # The Key_Shared hash slot with the most waiting entries, or -1.
    key_slot = models.IntegerField()
    key_consumer = models.BigIntegerField()  # The consumer that the slot's entries wait for
    key_waiting_entries = models.BigIntegerField()
    key_is_draining = models.BooleanField()  # The consumer no longer owns the slot

    class Meta:
        db_table = "vela_subscription_obstacles"
        indexes = [
            models.Index(
                fields=["first_redeliveries"],
                name="vela_subscription_poisoned",
                condition=models.Q(first_redeliveries__gte=3),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.gap or 'no gap'}"


class ConsumerDeparture(models.Model):
    """The consumer that left a subscription most recently."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    name = models.TextField()
    address = models.TextField()
    client_version = models.TextField()
    cause = models.CharField(max_length=16)  # A value of DepartureCause
    detail = models.TextField()
    connected_ms = models.BigIntegerField()
    left_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_consumer_departure"

    def __str__(self) -> str:
        return f"{self.name} left {self.subscription_id}: {self.cause}"
