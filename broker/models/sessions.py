"""Connected producers and consumers."""

from __future__ import annotations

from django.db import models

__all__ = ["ConsumerSession", "ProducerSession"]


class ProducerSession(models.Model):
    """A connected producer (UNLOGGED, written at most once a second when it changed)."""

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
    last_sequence_id = models.BigIntegerField()
    last_send_ms = models.BigIntegerField()  # 0 = never
    updated_ms = models.BigIntegerField()
    properties = models.JSONField(default=dict)  # as the client sent them; long ones are cut

    class Meta:
        db_table = "vela_producer_session"

    def __str__(self) -> str:
        return self.name


class ConsumerSession(models.Model):
    """A connected consumer (UNLOGGED, written at most once a second when it changed)."""

    key = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField(db_index=True)
    subscription_id = models.BigIntegerField(null=True, db_index=True)  # NULL = a reader's own cursor
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
    blocked = models.BooleanField()  # on unacked messages
    writable = models.BooleanField()
    messages_out = models.BigIntegerField()
    bytes_out = models.BigIntegerField()
    messages_acked = models.BigIntegerField()
    messages_redelivered = models.BigIntegerField()
    last_flow_ms = models.BigIntegerField()  # 0 = never, here and below
    last_delivery_ms = models.BigIntegerField()
    last_ack_ms = models.BigIntegerField()
    updated_ms = models.BigIntegerField()
    properties = models.JSONField(default=dict)  # as the client sent them; long ones are cut

    class Meta:
        db_table = "vela_consumer_session"

    def __str__(self) -> str:
        return self.name
