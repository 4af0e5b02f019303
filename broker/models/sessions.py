"""Tables of connected producers, connected consumers and waiting pulls.

A pull is a long-poll HTTP request for messages. The tables are UNLOGGED.
"""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Left

__all__ = ["ConsumerSession", "ParkedPulls", "ProducerSession"]

# The indexes contain only the first characters of a name, because a name can be several kilobytes long.
_SORTED_BY = 200


class ProducerSession(models.Model):
    """A connected producer."""

    key = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField(db_index=True)
    name = models.TextField()
    address = models.TextField()
    client_version = models.TextField()
    face = models.CharField(max_length=32)
    connected_ms = models.BigIntegerField()
    messages_in = models.BigIntegerField()
    bytes_in = models.BigIntegerField()
    message_rate_in = models.FloatField(db_default=0.0)
    byte_rate_in = models.FloatField(db_default=0.0)
    last_sequence_id = models.BigIntegerField()
    last_send_ms = models.BigIntegerField()
    updated_ms = models.BigIntegerField()
    properties = models.JSONField(default=dict)  # Shortened for the console's pages
    # 21 if the client does not use Pulsar's binary protocol.
    protocol_version = models.IntegerField(db_default=21)
    access_mode = models.CharField(max_length=32, db_default="")
    deduplicated = models.BooleanField(db_default=False)
    last_error = models.TextField(db_default="")

    class Meta:
        db_table = "vela_producer_session"
        indexes = [
            models.Index(Left("name", _SORTED_BY), "key", name="vela_producer_session_name"),
            models.Index(fields=["connected_ms", "key"], name="vela_producer_session_since"),
            models.Index(fields=["message_rate_in", "key"], name="vela_producer_session_rate"),
            # The name of a dead letter producer ends with -DLQ.
            models.Index(
                fields=["topic_id"],
                name="vela_producer_dead_letters",
                condition=models.Q(name__endswith="-DLQ"),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ConsumerSession(models.Model):
    """A connected consumer."""

    key = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField(db_index=True)
    # NULL if the subscription is not durable.
    subscription_id = models.BigIntegerField(null=True, db_index=True)
    subscription_name = models.TextField()
    subscription_type = models.CharField(max_length=16)
    name = models.TextField()
    address = models.TextField()
    client_version = models.TextField()
    face = models.CharField(max_length=32)
    priority = models.IntegerField()
    connected_ms = models.BigIntegerField()
    permits = models.BigIntegerField()
    unacked_messages = models.BigIntegerField()
    blocked = models.BooleanField()  # The consumer has reached its limit of unacked messages
    writable = models.BooleanField()
    messages_out = models.BigIntegerField()
    bytes_out = models.BigIntegerField()
    messages_acked = models.BigIntegerField()
    messages_redelivered = models.BigIntegerField()
    message_rate_out = models.FloatField(db_default=0.0)
    message_rate_acked = models.FloatField(db_default=0.0)
    message_rate_redelivered = models.FloatField(db_default=0.0)
    last_flow_ms = models.BigIntegerField()
    last_delivery_ms = models.BigIntegerField()
    last_ack_ms = models.BigIntegerField()
    # When the oldest unacked message was delivered. 0 means that no message is unacked, or that the time is unknown.
    # For Exclusive and Failover, the broker stores the time of the latest delivery instead.
    oldest_delivered_ms = models.BigIntegerField(db_default=0)
    updated_ms = models.BigIntegerField()
    properties = models.JSONField(default=dict)  # Shortened for the console's pages
    # 21 if the client does not use Pulsar's binary protocol.
    protocol_version = models.IntegerField(db_default=21)

    class Meta:
        db_table = "vela_consumer_session"
        indexes = [
            models.Index(Left("name", _SORTED_BY), "key", name="vela_consumer_session_name"),
            models.Index(fields=["connected_ms", "key"], name="vela_consumer_session_since"),
            models.Index(fields=["unacked_messages", "key"], name="vela_consumer_session_unacked"),
            models.Index(fields=["oldest_delivered_ms", "key"], name="vela_consumer_session_oldest"),
        ]

    def __str__(self) -> str:
        return self.name


class ParkedPulls(models.Model):
    """The pulls that wait for messages of one topic or partition."""

    topic_id = models.BigIntegerField(primary_key=True)
    pulls = models.IntegerField()
    # The 50 oldest pulls, with `offset`, `parked_ms`, `due_ms`, `is_filtered` and `address`.
    oldest = models.JSONField()
    updated_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_parked_pulls"

    def __str__(self) -> str:
        return f"{self.pulls} at {self.topic_id}"
