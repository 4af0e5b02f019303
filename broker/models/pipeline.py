"""Runs of the pipeline's jobs, their schedules, and the results of the job `insights`."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

__all__ = ["InsightHour", "PipelineRun", "PipelineSchedule"]


class PipelineSchedule(models.Model):
    """A job that repeats."""

    job = models.CharField(max_length=32)
    subject = models.TextField()  # as in PipelineRun
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
    """One run of a job. An act, a schedule or a policy adds the row; then a worker writes the progress and the end.

    A cancellation ends a run that waits, and one of Celery's tasks ends a run whose worker is silent.
    """

    class State(models.TextChoices):
        WAITING = "waiting"  # for a worker
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    job = models.CharField(max_length=32)
    # The topic and some options: see `Job.subject`. At most one run of the same job and subject waits or runs.
    subject = models.TextField()
    topic_name = models.TextField()  # kept after the topic is deleted
    options = models.JSONField()
    # Identifies what the run writes. A run that continues another run has the same id.
    write_id = models.TextField(default="")
    pinned = models.JSONField(default=dict)  # a run that continues this run uses these values again
    state = models.CharField(max_length=16, choices=State)
    stages = models.JSONField(default=list)  # [{"name", "done", "of", "began_ms"}]
    result = models.JSONField(null=True)
    error = models.TextField(default="")
    log = models.TextField(default="")  # the end of the output of Spark and the job
    worker = models.TextField(default="")  # host and process
    who = models.TextField()
    reason = models.TextField(default="")
    # No foreign keys: a run is kept when its act or its schedule is deleted.
    act_id = models.BigIntegerField(null=True, unique=True)
    schedule_id = models.BigIntegerField(null=True)
    resumes_id = models.BigIntegerField(null=True)  # the run that this run continues
    cancelled_by = models.TextField(default="")  # the user who asked to cancel the run
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
    """Statistics of the messages that were stored in a topic in one hour. The job `insights` writes them."""

    pk = models.CompositePrimaryKey("topic_id", "hour_ms")
    topic_id = models.BigIntegerField()  # for a partitioned topic, this covers all its partitions
    hour_ms = models.BigIntegerField()  # when the hour begins
    messages = models.BigIntegerField()
    size_bytes = models.BigIntegerField()  # of payloads, uncompressed
    size_p50 = models.BigIntegerField(null=True)
    size_p95 = models.BigIntegerField(null=True)
    size_p99 = models.BigIntegerField(null=True)
    size_most = models.BigIntegerField(null=True)
    delay_p50_ms = models.BigIntegerField(null=True)  # from publish to append time, read from two clocks
    delay_p95_ms = models.BigIntegerField(null=True)
    delay_p99_ms = models.BigIntegerField(null=True)
    keyed_messages = models.BigIntegerField()  # messages that have a key
    keys = models.BigIntegerField()  # approximate number of different keys
    top_keys = models.JSONField()  # [{"key", "messages", "bytes"}], at most 10
    # Dead letters among the messages, by where they came from: [{"topic", "subscription", "messages"}], at most 10.
    letters = models.JSONField()
    # Each subscription is {"name", "acked", "redelivered", "out", "ack_p50_ms", "ack_p95_ms", "ack_p99_ms"}.
    subscriptions = models.JSONField()
    # Messages delivered often and not acked: [{"subscription", "id", "count"}]. Empty if computed after the hour's end.
    poison = models.JSONField()
    computed_at = models.DateTimeField()

    class Meta:
        db_table = "vela_insight_hour"
        # For the deletion of old hours.
        indexes = [models.Index(fields=["hour_ms"], name="vela_insight_hour_old")]

    def __str__(self) -> str:
        return f"{self.topic_id} at {self.hour_ms}"
