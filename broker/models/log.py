"""A topic's log: entries in ledgers, ledgers in segments."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from broker.models.topics import Topic

__all__ = ["DelayedEntry", "Entry", "Ledger", "LedgerFile", "Segment"]


class Segment(models.Model):
    """Two plain tables that many ledgers share, `vela_entry_<id>` and `vela_entry_<id>_rest`, dropped together."""

    class State(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"
        DROPPING = "dropping"

    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    opened_ms = models.BigIntegerField()
    closed_ms = models.BigIntegerField(null=True, blank=True)
    long_lived = models.BooleanField(db_default=False)  # for ledgers that are copied out of older segments

    class Meta:
        db_table = "vela_segment"

    def __str__(self) -> str:
        return f"vela_entry_{self.pk} ({self.state})"


class LedgerFile(models.Model):
    """A file with a copy of one sealed ledger, outside PostgreSQL.

    The row is stored before the file is written and deleted after the file, so that no crash leaves a file without a
    row. The topic's owner attaches the file to its ledger. An attached file that no ledger names is deleted.
    """

    class State(models.TextChoices):
        WRITING = "writing"
        WRITTEN = "written"  # written and checked; the topic's owner has not attached it yet
        ATTACHED = "attached"  # readers of the ledger use the file
        DELETING = "deleting"

    name = models.TextField(primary_key=True)  # below VELA_OFFLOAD_URL
    topic_id = models.BigIntegerField()  # no foreign key: the file outlives its topic by a moment
    ledger_id = models.BigIntegerField()
    state = models.CharField(max_length=16, choices=State)
    # The version, the counts and the checksum are unset while the file is being written.
    format_version = models.IntegerField(default=0)
    entries = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)  # of the entries' data
    file_bytes = models.BigIntegerField(default=0)
    checksum = models.TextField(default="")
    write_id = models.TextField()  # of the run that wrote it
    created_at = models.DateTimeField(db_default=Now())
    attached_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "vela_ledger_file"
        indexes = [
            # The broker often looks for these files, and there are few.
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
    """An append-only run of entries of one topic. Its totals are stored when it is sealed.

    The row of a trimmed ledger is deleted, unless it is the topic's last ledger: that row stays as an empty ledger, and
    the next ledger continues its counts.
    """

    class State(models.TextChoices):
        OPEN = "open"
        SEALED = "sealed"

    topic = models.ForeignKey(Topic, models.CASCADE)
    # Entries are in a segment or in a file. A ledger in neither is sealed and empty.
    segment = models.ForeignKey(Segment, models.PROTECT, null=True, blank=True)
    file = models.ForeignKey(LedgerFile, models.PROTECT, null=True, blank=True, db_column="file_name")
    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    entries = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    entries_before = models.BigIntegerField(default=0)  # of the topic, before this ledger
    messages_before = models.BigIntegerField(default=0)
    bytes_before = models.BigIntegerField(default=0)
    opened_ms = models.BigIntegerField()
    first_append_ms = models.BigIntegerField(default=0)  # 0 = the ledger is open or empty
    last_append_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "vela_ledger"
        indexes = [models.Index(fields=["topic", "id"], name="vela_ledger_topic")]

    def __str__(self) -> str:
        return f"{self.pk} of {self.topic_id} ({self.state})"


class Entry(models.Model):
    """One stored record, usually a message or a producer's batch. The model reads a view of the live segments."""

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
    """The due time of an entry that was not due when it was appended. Deleted after that time, or with the entry."""

    pk = models.CompositePrimaryKey("topic_id", "deliver_at_ms", "ledger_id", "entry_id")
    topic_id = models.BigIntegerField()  # no foreign key, so that appends stay cheap
    deliver_at_ms = models.BigIntegerField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_delayed_entry"

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} at {self.deliver_at_ms}"
