"""The tables of acts and bookmarks. An act is a recorded change."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Coalesce

from broker.models.subscriptions import Subscription
from broker.models.topics import Topic

__all__ = ["Act", "Bookmark"]

_NAMESPACE = Coalesce(
    models.Func("topic_name", models.Value("^(?:[a-z-]+://)?([^/]+/[^/]+)"), function="substring"),
    models.Value(""),
)


class Act(models.Model):
    """A change by an operator, a client or a policy. The table is also the audit log."""

    class State(models.TextChoices):
        PLAN_REQUESTED = "plan_requested"
        PLANNED = "planned"
        APPLY_REQUESTED = "apply_requested"
        APPLYING = "applying"  # A restarted broker continues the act
        APPLIED = "applied"
        REFUSED = "refused"
        FAILED = "failed"
        EXPIRED = "expired"
        CLIENT = "client"  # A change by a client or a policy is in progress

    kind = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State)
    topic = models.ForeignKey(Topic, models.SET_NULL, null=True)
    subscription = models.ForeignKey(Subscription, models.SET_NULL, null=True)
    topic_name = models.TextField()
    namespace = models.GeneratedField(expression=_NAMESPACE, output_field=models.TextField(), db_persist=True)
    subscription_name = models.TextField()
    parameters = models.JSONField(default=dict)
    plan = models.JSONField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(default="")
    error_code = models.CharField(max_length=64, db_default="")
    progress = models.JSONField(null=True)
    message = models.BinaryField(null=True)  # The entry that an unfinished act is to publish; otherwise NULL
    who = models.TextField()
    origin = models.TextField()  # For example "command line" or "console 127.0.0.1"
    reason = models.TextField(default="")
    cursor_version = models.BigIntegerField(null=True)
    cursor_before = models.BinaryField(null=True)
    # Acks that clients sent after the act. An undo keeps these acks.
    acked_since = models.BinaryField(null=True)
    undo_of = models.ForeignKey("self", models.SET_NULL, null=True)
    # The unique constraint below already indexes this column.
    part_of = models.ForeignKey("self", models.SET_NULL, null=True, related_name="parts", db_index=False)
    undo_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "vela_act"
        indexes = [
            models.Index(fields=["subscription", "-id"], name="vela_act_subscription"),
            models.Index(fields=["namespace", "-id"], name="vela_act_namespace"),
            models.Index(
                models.Func("namespace", models.Value("/"), models.Value(1), function="split_part"),
                models.F("id").desc(),
                name="vela_act_tenant",
            ),
            models.Index(
                fields=["id"],
                name="vela_act_waiting",
                condition=models.Q(state__in=["plan_requested", "apply_requested"]),
            ),
            models.Index(
                fields=["id"], name="vela_act_clients", condition=models.Q(origin__startswith="client ")
            ),
            models.Index(fields=["topic"], name="vela_act_redrives", condition=models.Q(kind="redrive")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["part_of", "topic"],
                name="vela_act_part",
                condition=models.Q(part_of__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.topic_name}/{self.subscription_name} ({self.state})"


class Bookmark(models.Model):
    """A named position to which cursors can be reset. The log keeps the entries from this position on."""

    topic = models.ForeignKey(Topic, models.CASCADE)
    name = models.TextField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    until = models.DateTimeField(null=True, blank=True)  # NULL if the bookmark never expires
    who = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_bookmark"
        constraints = [models.UniqueConstraint(fields=["topic", "name"], name="vela_bookmark_name")]

    def __str__(self) -> str:
        return f"{self.name}: {self.ledger_id}:{self.entry_id} of {self.topic_id}"
