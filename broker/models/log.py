"""A topic's log: entries in ledgers, ledgers in segments."""

from __future__ import annotations

from django.db import models

from broker.models.topics import Topic

__all__ = ["DelayedEntry", "Entry", "Ledger", "Segment"]


class Segment(models.Model):
    """One plain table `vela_entry_<id>` that many ledgers share. The broker drops it as a whole."""

    class State(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"
        DROPPING = "dropping"

    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    opened_ms = models.BigIntegerField()
    closed_ms = models.BigIntegerField(null=True, blank=True)
    long_lived = models.BooleanField(db_default=False)  # has copies of the last ledgers of dropped segments

    class Meta:
        db_table = "vela_segment"

    def __str__(self) -> str:
        return f"vela_entry_{self.pk} ({self.state})"


class Ledger(models.Model):
    """An append-only run of entries of one topic. Its totals are stored when it is sealed.

    The row of a trimmed ledger is deleted, except for the topic's last ledger: that stays, empty, and the next one
    continues its counts.
    """

    class State(models.TextChoices):
        OPEN = "open"
        SEALED = "sealed"

    topic = models.ForeignKey(Topic, models.CASCADE)
    segment = models.ForeignKey(Segment, models.PROTECT, null=True, blank=True)  # NULL = sealed and empty
    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    entries = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    entries_before = models.BigIntegerField(default=0)  # of the topic, before this ledger
    messages_before = models.BigIntegerField(default=0)
    bytes_before = models.BigIntegerField(default=0)
    opened_ms = models.BigIntegerField()
    first_append_ms = models.BigIntegerField(default=0)  # 0 = nothing stored
    last_append_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "vela_ledger"
        indexes = [models.Index(fields=["topic", "id"], name="vela_ledger_topic")]

    def __str__(self) -> str:
        return f"{self.pk} of {self.topic_id} ({self.state})"


class Entry(models.Model):
    """One stored record: a message, or a producer's batch. The model reads a view of the live segments."""

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
    """The due time of an entry that was not due when it was appended. The row is deleted when the entry is due."""

    pk = models.CompositePrimaryKey("topic_id", "deliver_at_ms", "ledger_id", "entry_id")
    topic_id = models.BigIntegerField()  # no foreign key: written by every append of a delayed message
    deliver_at_ms = models.BigIntegerField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_delayed_entry"

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} at {self.deliver_at_ms}"
