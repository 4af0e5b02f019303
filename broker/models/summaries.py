"""The numbers that lists show, with their age."""

from __future__ import annotations

from django.db import models

from broker.core.subscription.standing import SubscriptionState
from broker.models.subscriptions import Subscription
from broker.models.topics import Topic

__all__ = ["SubscriptionState", "SubscriptionSummary", "TopicSummary"]

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
    max_backlog_messages = models.BigIntegerField(db_index=True)  # of its worst subscription
    last_used_ms = models.BigIntegerField(
        db_default=0
    )  # when its last client left; while clients are connected it is in use, whatever this says
    updated_ms = models.BigIntegerField()
    # The worst of its subscriptions; NULL = it has no durable one.
    state = models.SmallIntegerField(null=True, choices=_STATES)
    state_since_ms = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "vela_topic_summary"
        indexes = [
            models.Index(fields=["state", "state_since_ms", "topic"], name="vela_topic_summary_worst"),
        ]

    def __str__(self) -> str:
        return f"{self.topic_id}: {self.messages_in}"


class SubscriptionSummary(models.Model):
    """A subscription's numbers for lists, and their age. The owner writes them as it writes TopicSummary."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    # Cumulative, and as old as messages_in and bytes_in of the topic: the difference is the backlog.
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
    last_used_ms = models.BigIntegerField(
        db_default=0
    )  # when its last consumer left; while consumers are attached it is in use, whatever this says
    updated_ms = models.BigIntegerField()
    problems = models.JSONField(db_default={})  # what went wrong, in words: how often
    # Judged by the owner over the last half minute; the smallest number is the worst state.
    state = models.SmallIntegerField(choices=_STATES, db_default=SubscriptionState.WATCHING.value)
    state_since_ms = models.BigIntegerField(db_default=0)
    drain_s = models.BigIntegerField(null=True)  # while it is draining: seconds left, as of updated_ms

    class Meta:
        db_table = "vela_subscription_summary"
        indexes = [
            models.Index(fields=["state", "state_since_ms", "subscription"], name="vela_subscription_worst"),
        ]

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.acked_messages}"
