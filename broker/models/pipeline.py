"""Schedules, runs and results of jobs that process stored messages."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

__all__ = ["InsightHour", "PipelineRun", "PipelineSchedule"]


class PipelineSchedule(models.Model):
    """A job that repeats."""

    job = models.CharField(max_length=32)
    subject = models.TextField()
    topic_name = models.TextField()
    options = models.JSONField()
    every_minutes = models.IntegerField()
    next_at = models.DateTimeField()
    who = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "vela_pipeline_schedule"
        constraints = [
            models.UniqueConstraint(fields=["job", "subject"], name="vela_pipeline_schedule_subject")
        ]

    def __str__(self) -> str:
        return f"{self.job} {self.subject} every {self.every_minutes} min"


class PipelineRun(models.Model):
    """One run of a job."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    job = models.CharField(max_length=32)
    # Runs with the same job and subject never overlap.
    subject = models.TextField()
    topic_name = models.TextField()
    options = models.JSONField()
    # If this run continues an earlier run, both have the same `write_id`.
    write_id = models.TextField(default="")
    pinned = models.JSONField(default=dict)  # Message range
    state = models.CharField(max_length=16, choices=State)
    # One object for each stage, with its name, progress and start time
    stages = models.JSONField(default=list)
    result = models.JSONField(null=True)
    error = models.TextField(default="")
    log = models.TextField(default="")
    worker = models.TextField(default="")
    who = models.TextField()
    reason = models.TextField(default="")
    # No foreign keys, because a run outlives the rows that these ids name.
    act_id = models.BigIntegerField(null=True, unique=True)
    schedule_id = models.BigIntegerField(null=True)
    resumes_id = models.BigIntegerField(null=True)
    cancelled_by = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "vela_pipeline_run"
        constraints = [
            models.UniqueConstraint(
                fields=["job", "subject"],
                name="vela_pipeline_run_alone",
                condition=models.Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job} {self.subject} ({self.state})"


class InsightHour(models.Model):
    """Statistics of the messages that a topic stored in one hour."""

    pk = models.CompositePrimaryKey("topic_id", "hour_ms")
    topic_id = models.BigIntegerField()  # The row of a partitioned topic covers all partitions
    hour_ms = models.BigIntegerField()
    messages = models.BigIntegerField()
    size_bytes = models.BigIntegerField()  # Uncompressed size of the payloads
    size_p50 = models.BigIntegerField(null=True)
    size_p95 = models.BigIntegerField(null=True)
    size_p99 = models.BigIntegerField(null=True)
    size_most = models.BigIntegerField(null=True)
    # Time from publish to append
    delay_p50_ms = models.BigIntegerField(null=True)
    delay_p95_ms = models.BigIntegerField(null=True)
    delay_p99_ms = models.BigIntegerField(null=True)
    keyed_messages = models.BigIntegerField()
    keys = models.BigIntegerField()  # Approximate number of distinct keys
    top_keys = models.JSONField()  # At most 10 objects with `key`, `messages` and `bytes`
    # At most 10 origins of dead letters, as objects with `topic`, `subscription` and `messages`
    letters = models.JSONField()
    # One object for each subscription, with its message counts and ack times
    subscriptions = models.JSONField()
    # Unacked messages with many redeliveries, as objects with `subscription`, `id` and `count`
    poison = models.JSONField()
    computed_at = models.DateTimeField()

    class Meta:
        db_table = "vela_insight_hour"
        indexes = [models.Index(fields=["hour_ms"], name="vela_insight_hour_old")]

    def __str__(self) -> str:
        return f"{self.topic_id} at {self.hour_ms}"
