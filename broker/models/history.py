"""Tables with the history of topics, subscriptions and deliveries."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from broker.core.subscription.story_rows import StoryEvent

__all__ = [
    "DeliveryStory",
    "StatsPoint10s",
    "StatsPoint60s",
    "StatsPoint600s",
    "StatsPoint3600s",
    "StatsProgress",
    "StoryEvent",
]


class _StatsPoint(models.Model):
    """The activity of one topic or subscription in one time bucket. If nothing changed, there is no row.

    There are no foreign keys, because rows outlive deleted topics.
    """

    pk = models.CompositePrimaryKey("at_ms", "topic_id", "subscription_id")
    at_ms = models.BigIntegerField()  # Start of the bucket
    topic_id = models.BigIntegerField()  # 0 stands for all topics together
    subscription_id = models.BigIntegerField()  # 0 stands for the whole topic
    messages_in = models.BigIntegerField(null=True)
    bytes_in = models.BigIntegerField(null=True)
    messages_out = models.BigIntegerField()
    messages_acked = models.BigIntegerField()
    messages_redelivered = models.BigIntegerField()
    # A topic's backlog is the largest backlog of its subscriptions. NULL means unknown.
    backlog_before = models.BigIntegerField(null=True)  # At the start of the bucket
    backlog = models.BigIntegerField(null=True)  # At the end of the bucket
    backlog_most = models.BigIntegerField(null=True)
    stored_bytes = models.BigIntegerField(null=True)
    # Number of messages for each ack latency: below 1 ms, 1 ms, 2 to 3 ms, 4 to 7 ms and so on.
    ack_latencies = ArrayField(models.BigIntegerField(), null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.topic_id}/{self.subscription_id} at {self.at_ms}"


class StatsPoint10s(_StatsPoint):
    """Buckets of ten seconds."""

    class Meta:
        db_table = "vela_stats_point_10s"


class StatsPoint60s(_StatsPoint):
    """Buckets of a minute."""

    class Meta:
        db_table = "vela_stats_point_60s"


class StatsPoint600s(_StatsPoint):
    """Buckets of ten minutes."""

    class Meta:
        db_table = "vela_stats_point_600s"


class StatsPoint3600s(_StatsPoint):
    """Buckets of an hour."""

    class Meta:
        db_table = "vela_stats_point_3600s"


class StatsProgress(models.Model):
    """The time up to which the rows of one bucket length are complete."""

    resolution_s = models.IntegerField(primary_key=True)
    until_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_stats_progress"

    def __str__(self) -> str:
        return f"{self.resolution_s} s until {self.until_ms}"


class DeliveryStory(models.Model):
    """Events of one kind on consecutive entries of one subscription.

    A row with the event UNRECORDED may cover any number of entries. Every other row covers at most 1,024 entries.
    There are no foreign keys, because rows outlive their subscription.
    """

    id = models.BigIntegerField(primary_key=True)  # Later rows have higher ids
    subscription_id = models.BigIntegerField()
    event = models.SmallIntegerField()  # A value of `StoryEvent`
    ledger_id = models.BigIntegerField()
    first_entry = models.BigIntegerField()
    last_entry = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    until_ms = models.BigIntegerField()
    events = models.BigIntegerField()
    redelivery_count = models.IntegerField()
    consumer_name = models.TextField()  # Empty for events of the broker itself
    consumer_address = models.TextField()
    detail = models.TextField()  # Target topic of a dead letter or a retry letter
    expires_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_delivery_story"
        indexes = [
            models.Index(
                fields=["subscription_id", "ledger_id", "first_entry"], name="vela_delivery_story_entry"
            ),
            models.Index(
                fields=["subscription_id", "ledger_id"],
                name="vela_delivery_story_left_out",
                condition=models.Q(event=StoryEvent.UNRECORDED.value),
            ),
            models.Index(fields=["expires_ms"], name="vela_delivery_story_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.first_entry}-{self.last_entry} {StoryEvent(self.event).name}"
