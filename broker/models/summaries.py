"""The numbers that lists show, each with its age."""

from __future__ import annotations

from django.db import models

from broker.models.subscriptions import Subscription
from broker.models.topics import Topic

__all__ = ["SubscriptionSummary", "TopicSummary"]


class TopicSummary(models.Model):
    """A topic's numbers for lists, with their age; written by the owner at most once a second when changed."""

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
    )  # when its last client left; of use while some are connected
    updated_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_topic_summary"

    def __str__(self) -> str:
        return f"{self.topic_id}: {self.messages_in}"


class SubscriptionSummary(models.Model):
    """A subscription's numbers for lists, with their age; written like TopicSummary."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    # Cumulative. Of the same moment as a messages_in and bytes_in of the topic: the backlog is what these grew beyond.
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
    )  # when its last consumer left; of use while some are attached
    updated_ms = models.BigIntegerField()
    problems = models.JSONField(db_default={})  # what went wrong, in words: how often

    class Meta:
        db_table = "vela_subscription_summary"

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.acked_messages}"
