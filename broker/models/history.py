"""The history of topics and subscriptions: points, in one table for each bucket length, and delivery stories."""

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
    """The activity of one topic or subscription in one bucket. No row means that nothing changed.

    The key begins with the time, so that appending, adding up and expiring points each touch one end of the index.
    There are no foreign keys: points of deleted topics and subscriptions expire like the others.
    """

    pk = models.CompositePrimaryKey("at_ms", "topic_id", "subscription_id")
    at_ms = models.BigIntegerField()  # when the bucket begins
    topic_id = models.BigIntegerField()  # 0 = all topics together
    subscription_id = models.BigIntegerField()  # 0 = the topic, with totals over its subscriptions
    messages_in = models.BigIntegerField(null=True)  # NULL for a subscription, like bytes_in
    bytes_in = models.BigIntegerField(null=True)
    messages_out = models.BigIntegerField()
    messages_acked = models.BigIntegerField()
    messages_redelivered = models.BigIntegerField()
    # For a topic, the largest backlog of a subscription; for a partitioned topic, the sum over its partitions; for all
    # topics, the sum over subscriptions. NULL = unknown.
    backlog_before = models.BigIntegerField(null=True)  # at the beginning of the bucket
    backlog = models.BigIntegerField(null=True)  # at the end of the bucket
    backlog_most = models.BigIntegerField(null=True)  # the largest seen in the bucket, including both ends
    stored_bytes = models.BigIntegerField(null=True)  # at the end; NULL for a subscription, or if unknown
    # For a subscription, numbers of messages by time from delivery to ack: below 1 ms, then 1, 2 to 3, 4 to 7 ms, …
    ack_latencies = ArrayField(models.BigIntegerField(), null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.topic_id}/{self.subscription_id} at {self.at_ms}"


class StatsPoint10s(_StatsPoint):
    """Buckets of 10 s. The broker writes them."""

    class Meta:
        db_table = "vela_stats_point_10s"


class StatsPoint60s(_StatsPoint):
    """Buckets of a minute. Celery adds up shorter buckets into these, and into the longer ones."""

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
    """How far the points of one resolution are complete. Points before `until_ms` do not change any more."""

    resolution_s = models.IntegerField(primary_key=True)  # the length of a bucket: 10, 60, 600 or 3600
    until_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_stats_progress"

    def __str__(self) -> str:
        return f"{self.resolution_s} s until {self.until_ms}"


class DeliveryStory(models.Model):
    """Events of one kind for a run of entries on one subscription, from `at_ms` to `until_ms`.

    A policy decides which events are kept. Rows that count left-out events may have runs of any length, so they have a
    separate index. In all other rows a run has at most 1,024 entries, so a row about an entry begins at most 1,023
    entries before that entry. There are no foreign keys: rows of deleted subscriptions expire like the others.
    """

    id = models.BigIntegerField(primary_key=True)  # rises in the order in which the rows began
    subscription_id = models.BigIntegerField()
    event = models.SmallIntegerField()  # of StoryEvent
    ledger_id = models.BigIntegerField()
    first_entry = models.BigIntegerField()
    last_entry = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    until_ms = models.BigIntegerField()
    events = models.BigIntegerField()
    redelivery_count = models.IntegerField()
    consumer_name = models.TextField()  # "" = the broker itself
    consumer_address = models.TextField()
    detail = models.TextField()  # the topic to which a dead letter or retry letter was written
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
