"""Subscriptions, their cursors, and entries that were delivered but not acked."""

from __future__ import annotations

from django.db import models

from broker.models.topics import Topic

__all__ = ["Cursor", "CursorChunk", "PendingAck", "Subscription"]


class Subscription(models.Model):
    """A durable subscription of a topic."""

    topic = models.ForeignKey(Topic, models.CASCADE)
    name = models.TextField()
    type = models.CharField(max_length=16)
    properties = models.JSONField(default=dict)
    paused = models.BooleanField(db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_subscription"
        constraints = [models.UniqueConstraint(fields=["topic", "name"], name="vela_subscription_name")]
        indexes = [models.Index(fields=["name"], name="vela_subscription_same_name")]

    def __str__(self) -> str:
        return f"{self.topic_id}/{self.name}"


class Cursor(models.Model):
    """A subscription's cursor. No index contains a column that changes, so updates are HOT."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    mark_delete_ledger = models.BigIntegerField()
    mark_delete_entry = models.BigIntegerField()
    acked_messages = models.BigIntegerField()  # Includes messages that are no longer stored
    acked_entries = models.BigIntegerField()
    acked_bytes = models.BigIntegerField()
    # Rises when a seek, an expiry or an operator moves the cursor, but not when clients ack.
    version = models.BigIntegerField(default=0)

    class Meta:
        db_table = "vela_cursor"

    def __str__(self) -> str:
        return f"{self.subscription_id} at {self.mark_delete_ledger}:{self.mark_delete_entry}"


class CursorChunk(models.Model):
    """A bitmap of the acked entries among 32,768 entries, and the ack sets of partly acked batches."""

    pk = models.CompositePrimaryKey("cursor_id", "ledger_id", "chunk")
    cursor = models.ForeignKey(Cursor, models.CASCADE)
    ledger_id = models.BigIntegerField()
    chunk = models.IntegerField()
    bits = models.BinaryField()
    ack_sets = models.BinaryField(default=b"")

    class Meta:
        db_table = "vela_cursor_chunk"

    def __str__(self) -> str:
        return f"{self.cursor_id} {self.ledger_id}#{self.chunk}"


class PendingAck(models.Model):
    """A range of entries that were delivered together and are not acked yet.

    The table is UNLOGGED. The ranges of an Exclusive or Failover consumer may include acked entries. The first row of
    such a consumer counts the unacked messages of all its rows, and `messages` is 0 in the other rows.
    """

    delivery_id = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField()
    subscription_id = models.BigIntegerField()
    consumer_key = models.BigIntegerField()
    consumer_name = models.TextField()
    ledger_id = models.BigIntegerField()
    first_entry = models.BigIntegerField()
    last_entry = models.BigIntegerField()
    messages = models.IntegerField()  # Number of unacked messages
    delivered_ms = models.BigIntegerField()
    redelivery_count = models.IntegerField()
    deadline_ms = models.BigIntegerField(null=True)  # Time at which the broker redelivers the entries

    class Meta:
        db_table = "vela_pending_ack"
        indexes = [
            models.Index(fields=["subscription_id", "ledger_id", "first_entry"], name="vela_pending_ack_sub"),
            models.Index(
                fields=["deadline_ms"],
                name="vela_pending_ack_due",
                condition=models.Q(deadline_ms__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.first_entry}-{self.last_entry} at {self.consumer_name}"
