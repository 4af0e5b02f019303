"""The compaction of topics."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from broker.models.topics import Topic

__all__ = ["CompactedEntry", "Compaction", "CompactionKey", "CompactionSurvey"]


class Compaction(models.Model):
    """The compaction of one topic. The horizon is the last compacted entry."""

    class State(models.TextChoices):
        RUNNING = "RUNNING"
        SUCCESS = "SUCCESS"
        ERROR = "ERROR"

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    horizon_ledger = models.BigIntegerField()
    horizon_entry = models.BigIntegerField()  # -1 means the position before the ledger's first entry
    horizon_messages = models.BigIntegerField()
    horizon_bytes = models.BigIntegerField()
    generation = models.BigIntegerField(default=0)  # Readers get the entries of this generation
    attempt = models.BigIntegerField(default=0)  # Generation of the latest run
    state = models.CharField(max_length=16, choices=State)
    last_error = models.TextField(default="")
    kept_entries = models.BigIntegerField(default=0)
    kept_messages = models.BigIntegerField(default=0)
    kept_bytes = models.BigIntegerField(default=0)
    removed_messages = models.BigIntegerField(default=0)
    duration_ms = models.BigIntegerField(default=0)
    started_at = models.DateTimeField()
    succeeded_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    failures = models.IntegerField(default=0)  # Failed runs since the last success
    retry_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "vela_compaction"

    def __str__(self) -> str:
        return f"{self.topic_id} up to {self.horizon_ledger}:{self.horizon_entry} ({self.state})"


class CompactedEntry(models.Model):
    """A copy of an entry, with the messages that compaction kept."""

    pk = models.CompositePrimaryKey("topic_id", "generation", "ledger_id", "entry_id")
    topic_id = models.BigIntegerField()
    generation = models.BigIntegerField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    messages = models.IntegerField()  # Number of messages in the original entry
    flags = models.SmallIntegerField()
    key_hash = models.IntegerField(null=True)
    append_ms = models.BigIntegerField()
    deliver_at_ms = models.BigIntegerField()
    cumulative_messages = models.BigIntegerField()
    cumulative_bytes = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        db_table = "vela_compacted_entry"

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} of {self.topic_id}"


class CompactionSurvey(models.Model):
    """The first pass of a compaction by Spark. This pass finds the latest message of each key."""

    class State(models.TextChoices):
        READING = "reading"
        READY = "ready"
        DONE = "done"
        REFUSED = "refused"

    topic_id = models.BigIntegerField()  # No foreign key, because a survey outlives its topic
    write_id = models.TextField()
    state = models.CharField(max_length=16, choices=State)
    generation = models.BigIntegerField()  # The compaction's generation when the survey began
    # The survey covers the entries after the begin position, up to and including the horizon.
    begin_ledger = models.BigIntegerField()
    begin_entry = models.BigIntegerField()
    horizon_ledger = models.BigIntegerField()
    horizon_entry = models.BigIntegerField()
    error = models.TextField(default="")
    kept_messages = models.BigIntegerField(default=0)
    removed_messages = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "vela_compaction_survey"

    def __str__(self) -> str:
        return f"{self.topic_id} up to {self.horizon_ledger}:{self.horizon_entry} ({self.state})"


class CompactionKey(models.Model):
    """The latest message of one key in a survey."""

    pk = models.CompositePrimaryKey("survey_id", "key")
    survey_id = models.BigIntegerField()
    key = models.BinaryField()  # MD5 hash of the message's key
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    batch_index = models.IntegerField()
    is_deleted = models.BooleanField()  # An empty message deletes its key

    class Meta:
        db_table = "vela_compaction_key"

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} of survey {self.survey_id}"
