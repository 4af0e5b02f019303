"""Entries, their ledgers, and the segments that store the ledgers."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from broker.models.topics import Topic

__all__ = ["DelayedEntry", "Entry", "Ledger", "LedgerFile", "Segment"]


class Segment(models.Model):
    """The tables `vela_entry_<id>` and `vela_entry_<id>_rest`, which many ledgers share."""

    class State(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"
        DROPPING = "dropping"

    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    opened_ms = models.BigIntegerField()
    closed_ms = models.BigIntegerField(null=True, blank=True)
    long_lived = models.BooleanField(db_default=False)  # Whether it holds ledgers copied from older segments

    class Meta:
        db_table = "vela_segment"

    def __str__(self) -> str:
        return f"vela_entry_{self.pk} ({self.state})"


class LedgerFile(models.Model):
    """A file outside PostgreSQL with a copy of one sealed ledger.

    Add the row before the file, and delete the file before the row, so that every file has a row.
    """

    class State(models.TextChoices):
        WRITING = "writing"
        WRITTEN = "written"
        ATTACHED = "attached"
        DELETING = "deleting"

    name = models.TextField(primary_key=True)  # Path below VELA_OFFLOAD_URL
    topic_id = models.BigIntegerField()  # No foreign key, because the file outlives its topic
    ledger_id = models.BigIntegerField()
    state = models.CharField(max_length=16, choices=State)
    format_version = models.IntegerField(default=0)
    entries = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    file_bytes = models.BigIntegerField(default=0)
    checksum = models.TextField(default="")
    write_id = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    attached_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "vela_ledger_file"
        indexes = [
            models.Index(
                fields=["created_at"],
                name="vela_ledger_file_moving",
                condition=~models.Q(state="attached"),
            ),
            models.Index(fields=["topic_id"], name="vela_ledger_file_topic"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.state})"


class Ledger(models.Model):
    """Consecutive entries of one topic.

    The counts are stored when the ledger is sealed. Trimming keeps the row of the topic's last ledger.
    """

    class State(models.TextChoices):
        OPEN = "open"
        SEALED = "sealed"

    topic = models.ForeignKey(Topic, models.CASCADE)
    # Only a sealed, empty ledger has neither a segment nor a file.
    segment = models.ForeignKey(Segment, models.PROTECT, null=True, blank=True)
    file = models.ForeignKey(LedgerFile, models.PROTECT, null=True, blank=True, db_column="file_name")
    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    entries = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    entries_before = models.BigIntegerField(default=0)
    messages_before = models.BigIntegerField(default=0)
    bytes_before = models.BigIntegerField(default=0)
    opened_ms = models.BigIntegerField()
    first_append_ms = models.BigIntegerField(default=0)  # 0 if the ledger is open or empty
    last_append_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "vela_ledger"
        indexes = [models.Index(fields=["topic", "id"], name="vela_ledger_topic")]

    def __str__(self) -> str:
        return f"{self.pk} of {self.topic_id} ({self.state})"


class Entry(models.Model):
    """One stored record, usually a message or a producer's batch. `vela_entry` is a view of the segments."""

    pk = models.CompositePrimaryKey("ledger_id", "entry_id")
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    topic_id = models.BigIntegerField()
    messages = models.IntegerField()
    flags = models.SmallIntegerField()
    key_hash = models.IntegerField(null=True)
    append_ms = models.BigIntegerField()
    deliver_at_ms = models.BigIntegerField()
    cumulative_messages = models.BigIntegerField()
    cumulative_bytes = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        db_table = "vela_entry"
        managed = False

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


class DelayedEntry(models.Model):
    """A delayed entry and its delivery time."""

    pk = models.CompositePrimaryKey("topic_id", "deliver_at_ms", "ledger_id", "entry_id")
    topic_id = models.BigIntegerField()  # No foreign key, so that appends stay cheap
    deliver_at_ms = models.BigIntegerField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_delayed_entry"

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} at {self.deliver_at_ms}"
