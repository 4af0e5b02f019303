"""Numbers that lists show, obstacles to deliveries, and consumers that left."""

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
    """A topic's numbers for lists, and their age. The owner writes them at most once a second, if they changed."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    messages_in = models.BigIntegerField()  # cumulative since the topic began
    bytes_in = models.BigIntegerField()
    stored_bytes = models.BigIntegerField()
    producers = models.IntegerField()
    message_rate_in = models.FloatField()  # per second, over the last seconds
    byte_rate_in = models.FloatField()
    last_append_ms = models.BigIntegerField()  # 0 = never
    max_backlog_messages = models.BigIntegerField(db_index=True)  # the largest of a durable subscription
    subscriptions = models.IntegerField(db_default=0)  # number of durable subscriptions
    worst_subscription = models.TextField(db_default="")  # the one with the largest backlog; "" = no backlog
    message_rate_acked = models.FloatField(db_default=0.0)  # per second, of all its durable subscriptions
    # When its last client left, or if unknown, when it was loaded. Has no meaning while clients are connected.
    last_used_ms = models.BigIntegerField(db_default=0)
    updated_ms = models.BigIntegerField()
    # The worst state of its subscriptions; NULL = it has no durable subscription.
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
    """The numbers by which lists of topics sort and filter: one small row for each topic, none for its partitions.

    The values are those of TopicSummary; for a partitioned topic, of all its partitions together. Triggers add the row
    when the topic is created, update it when a summary is written, and delete it with the topic
    (broker/storage/sql/functions.sql), so it needs no foreign key. Values that change all the time have no index, so
    that their updates stay HOT: a list that sorts by them reads the whole table, which takes 20 ms for 100,000 topics.
    """

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True, db_constraint=False)
    namespace = models.ForeignKey(Namespace, models.CASCADE, db_index=False, db_constraint=False)
    name = models.TextField()  # of the topic; a name never changes
    subscriptions = models.IntegerField(db_default=0)  # summed over the partitions
    # -1 = never reported: such topics come last.
    backlog_messages = models.BigIntegerField(db_default=-1)
    stored_bytes = models.BigIntegerField(db_default=-1)
    message_rate_in = models.FloatField(db_default=-1.0)  # per second
    last_append_ms = models.BigIntegerField(db_default=-1)  # 0 = never
    # The worst state of a subscription on any partition; 2047 = no durable subscription, or never reported.
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
    """A subscription's numbers for lists, and their age. The owner writes them as it writes TopicSummary."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    # Cumulative: the topic's messages_in and bytes_in minus these numbers are the backlog.
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
    # When its last consumer left, or if unknown, when it was loaded. Has no meaning while consumers are attached.
    last_used_ms = models.BigIntegerField(db_default=0)
    updated_ms = models.BigIntegerField()
    problems = models.JSONField(db_default={})  # problem, in words → its count
    # See broker/core/subscription/standing.py; the smallest number is the worst state.
    state = models.SmallIntegerField(choices=_STATES, db_default=SubscriptionState.WATCHING.value)
    state_since_ms = models.BigIntegerField(db_default=0)
    drain_s = models.BigIntegerField(null=True)  # while it is draining: seconds left, as of updated_ms

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
    """Obstacles to the delivery of a subscription, as its owner sees them."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    blocked = models.BooleanField()  # too many unacked messages over all its consumers
    rate_limited = models.BooleanField()  # a dispatch rate made it wait
    gap = models.TextField()  # an entry that is missing from the log, in words; "" = none
    read_fault = models.TextField()  # why the latest read of the log failed; "" = it did not fail
    # Failover: key of the active consumer or, while a switch is due, of the next one; 0 = none.
    active_consumer = models.BigIntegerField()
    first_redeliveries = models.IntegerField()  # redelivery count of the first entry that is not acked
    # The hash slot with the most waiting entries; -1 = none wait, or no consumer covers the slot.
    key_slot = models.IntegerField()
    key_consumer = models.BigIntegerField()  # key of the consumer that these entries wait for
    key_waiting_entries = models.BigIntegerField()
    key_is_draining = models.BooleanField()  # that consumer does not own the slot any more

    class Meta:
        db_table = "vela_subscription_obstacles"
        indexes = [
            # For the console's first page, which lists messages that are redelivered again and again.
            models.Index(
                fields=["first_redeliveries"],
                name="vela_subscription_poisoned",
                condition=models.Q(first_redeliveries__gte=3),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.gap or 'no gap'}"


class ConsumerDeparture(models.Model):
    """The consumer that left a subscription last, and why it left."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    name = models.TextField()
    address = models.TextField()
    client_version = models.TextField()
    cause = models.CharField(max_length=16)  # broker.core.subscription.departure
    # The reason in words; "" = the client or the network ended the consumer.
    detail = models.TextField()
    connected_ms = models.BigIntegerField()
    left_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_consumer_departure"

    def __str__(self) -> str:
        return f"{self.name} left {self.subscription_id}: {self.cause}"
