"""Messages that Django code publishes inside its own transaction."""

from __future__ import annotations

from django.db import models

__all__ = ["Outbox"]


class Outbox(models.Model):
    """A message published inside a Django transaction.

    The table has no foreign key, so that publishing a message locks no row of another table.
    """

    topic = models.TextField()  # Full or short name
    key_hash = models.IntegerField(null=True)
    deliver_at_ms = models.BigIntegerField()  # 0 means at once
    data = models.BinaryField()  # The encoded entry
    error = models.TextField(default="")
    retry_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_outbox"
        indexes = [models.Index(fields=["topic", "id"], name="vela_outbox_topic")]

    def __str__(self) -> str:
        return f"{self.pk} to {self.topic}"
